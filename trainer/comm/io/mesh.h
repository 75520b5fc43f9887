// Connects the ranks of one generation with each other, and only them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/comm/io/socket.h"
#include "trainer/comm/io/tcp_link.h"

namespace dlaunch::comm {

/// Shorter secrets are refused.
constexpr std::size_t kTokenBytesMin = 16;
using Token = std::vector<std::byte>;
/// nullopt: not hex, or shorter than kTokenBytesMin.
[[nodiscard]] std::optional<Token> token_from_hex(std::string_view hex);

/// Both ends belong to it; first 0: any port that the kernel has.
struct PortRange {
  std::uint16_t first = 0, last = 0;
};

/// Where the other ranks find this one. Opened before ranks are known and kept from generation to
/// generation; who connects in between waits in the kernel's queue.
class MeshListener {
 public:
  /// `address`: numeric IPv4 or IPv6 of the data network. The ports are tried one after the other,
  /// from the `begin`-th of the upper half on, so that the ranks of a host do not meet at each.
  [[nodiscard]] static Result<MeshListener> open(const std::string& address, PortRange ports = {},
                                                 std::uint32_t begin = 0);

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  MeshListener(FileDescriptor socket, std::string address, std::uint16_t port)
      : socket_(std::move(socket)), address_(std::move(address)), port_(port) {}

  FileDescriptor socket_;
  std::string address_;
  std::uint16_t port_;
};

struct MeshEndpoint {
  Rank rank;
  std::string address;  ///< numeric
  std::uint16_t port = 0;
};

struct MeshSettings {
  Rank rank;
  std::uint32_t world_size = 1;
  std::vector<MeshEndpoint> endpoints;  ///< of all ranks, in any order
  Token token;                          ///< of the generation; proved, never sent
  Generation generation;
  std::string group = "main";
  milliseconds connect_limit = 60s;  ///< for the whole mesh
  milliseconds operation_limit =
      30min;                 ///< for each collective; the supervisor judges hangs sooner
  bool share_memory = true;  ///< with ranks at the same address, where that can be
  /// With each rank at another address, the same on all ranks; 0: as many as `connections_for`.
  std::uint32_t connections = 0;
  std::uint32_t stripe_bytes = kStripeBytes;  ///< of each connection; the same on all ranks
  bool check_collectives = false;  ///< compare what all ranks are about to do, before they do it
};

/// Between two ranks at different addresses: four where there are few ranks, so that a network that
/// limits each connection limits less; one where there are many, for descriptors are bounded.
[[nodiscard]] std::uint32_t connections_for(std::uint32_t world_size);

/// Dials every higher rank and lets in every lower one, all at once; both sides prove the token.
/// Strangers, other generations and wrong proofs are refused and disturb nobody. Ranks at the same
/// address share memory if they can. Returns when all connections stand.
[[nodiscard]] CommResult<std::unique_ptr<Communicator>> connect_mesh(
    MeshListener& listener, const MeshSettings& settings, std::shared_ptr<AbortFlag> abort);

}  // namespace dlaunch::comm
