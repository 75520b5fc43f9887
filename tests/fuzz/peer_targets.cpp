// What agents say to each other: probes and requests to relay.
#include <string>

#include "base/check.h"
#include "supervisor/host/io/peer_proof.h"
#include "tests/fuzz/target.h"

namespace dlaunch::fuzz {

using namespace supervisor;

namespace {
const std::string& key() {
  static const std::string text(32, 'k');
  return text;
}
}  // namespace

void probes(std::string_view bytes) {
  // Nobody guesses sixteen bytes of proof.
  DL_CHECK(!host::open_probe(key(), bytes), "a datagram without a proof is no probe");
  protocol::ProbeDatagram probe;
  if (!probe.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const auto datagram = host::seal_probe(key(), probe);
  const auto opened = host::open_probe(key(), datagram);
  const bool fits = probe.ByteSizeLong() > 0 && probe.ByteSizeLong() <= host::kProbeBytesMax;
  DL_CHECK(opened.has_value() == fits, "what was sealed can be opened, unless it is too long");
  DL_CHECK(!host::open_probe("another key", datagram), "but not with another key");
}

void relay_requests(std::string_view bytes) {
  protocol::RelayRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  DL_CHECK(!host::is_signed(key(), request), "a request without a proof is not signed");
  host::sign(key(), request);
  DL_CHECK(host::is_signed(key(), request), "a signed one is");
  DL_CHECK(!host::is_signed("another key", request), "with this key");
  request.set_nonce(request.nonce() + "x");
  DL_CHECK(!host::is_signed(key(), request), "and this nonce");
}

}  // namespace dlaunch::fuzz
