#include "supervisor/host/io/peer_proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/check.h"

namespace dlaunch::supervisor::host {
namespace {

// One key serves both: what is proved for one purpose is no proof for the other.
constexpr std::string_view kProbePurpose = "dlaunch probe\n";
constexpr std::string_view kRelayPurpose = "dlaunch relay\n";

std::string proof_of(const std::string& key, std::string_view purpose, std::string_view message) {
  std::string text(purpose);
  text += message;
  std::array<unsigned char, EVP_MAX_MD_SIZE> mac{};
  unsigned bytes = 0;
  const auto* done =
      ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac.data(), &bytes);
  DL_CHECK(done != nullptr && bytes >= kProofBytes, "OpenSSL computes HMAC-SHA256");
  return {reinterpret_cast<const char*>(mac.data()), kProofBytes};
}

bool equal(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string unsigned_text(protocol::RelayRequest request) {
  request.clear_proof();
  return request.SerializeAsString();
}

}  // namespace

std::string seal_probe(const std::string& key, const protocol::ProbeDatagram& probe) {
  const auto message = probe.SerializeAsString();
  return proof_of(key, kProbePurpose, message) + message;
}

std::optional<protocol::ProbeDatagram> open_probe(const std::string& key,
                                                  std::string_view datagram) {
  if (key.empty() || datagram.size() <= kProofBytes ||
      datagram.size() > kProofBytes + kProbeBytesMax) {
    return std::nullopt;
  }
  const auto message = datagram.substr(kProofBytes);
  if (!equal(proof_of(key, kProbePurpose, message), datagram.substr(0, kProofBytes))) {
    return std::nullopt;
  }
  protocol::ProbeDatagram probe;
  if (!probe.ParseFromArray(message.data(), static_cast<int>(message.size()))) return std::nullopt;
  return probe;
}

void sign(const std::string& key, protocol::RelayRequest& request) {
  request.set_proof(proof_of(key, kRelayPurpose, unsigned_text(request)));
}

bool is_signed(const std::string& key, const protocol::RelayRequest& request) {
  if (key.empty()) return false;
  return equal(proof_of(key, kRelayPurpose, unsigned_text(request)), request.proof());
}

std::string make_nonce() {
  std::string nonce(kNonceBytes, '\0');
  const int done = RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), kNonceBytes);
  DL_CHECK(done == 1, "the kernel gives random bytes");
  return nonce;
}

}  // namespace dlaunch::supervisor::host
