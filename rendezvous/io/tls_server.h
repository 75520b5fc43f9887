// The controller's listener: agents dial in, prove themselves with their host's key, and exchange
// frames.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "rendezvous/io/psk.h"

namespace boost::asio {
class io_context;
}

namespace dlaunch::rendezvous {

struct PortRange {
  std::uint16_t low = 29600;
  std::uint16_t high = 29899;
};

/// Lives on the thread of its io_context; handlers are called there and may call back. Its
/// coroutines end with `stop` or the destructor, at the next turn of the io_context.
class TlsServer {
 public:
  struct Setting {
    std::string job;
    Secret secret{};
    std::uint32_t hosts = 0;  ///< ids 0 … hosts - 1 have keys
    /// From the place that it gets (admission.h) to its hello.
    nanoseconds hello_limit = 5s;
  };
  struct Handlers {
    /// A hello comes first on each connection. `acknowledged_sent_at`: when we sent the frame that
    /// this one acknowledges.
    std::function<void(HostId, std::uint64_t connection,
                       std::optional<Instant> acknowledged_sent_at, protocol::AgentFrame&&)>
        frame;
    /// Once for each connection that has said hello.
    std::function<void(HostId, std::uint64_t connection, std::string reason)> closed;
    /// A connection ended without a hello: from where and why.
    std::function<void(std::string sentence)> refused;
  };

  TlsServer(boost::asio::io_context& context, Setting setting, Handlers handlers);
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  /// Listens on the same port of all `addresses` (numeric), the first one that is free everywhere,
  /// looked for from `first` upwards and around. Returns the port.
  [[nodiscard]] Result<std::uint16_t> listen(const std::vector<std::string>& addresses,
                                             PortRange ports, std::uint16_t first);

  /// To the newest connection of each host; a host without one is skipped. `number` and
  /// `acknowledged` are filled in.
  void send(const std::vector<HostId>& hosts, const protocol::ControllerFrame& frame);
  /// The newest connection of the host, at once; `closed` is called.
  void close(HostId host, const std::string& reason);
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace dlaunch::rendezvous
