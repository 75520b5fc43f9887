// The control socket: lines of JSON between a controller and the programs of the same user.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/result.h"

namespace boost::asio {
class io_context;
}

namespace dlaunch::launcher::controller {

using ClientId = std::uint64_t;

/// Lives on the thread of its io_context. Requests are whole lines; answers are queued per client.
class ControlServer {
 public:
  struct Handlers {
    /// One line, without its end.
    std::function<void(ClientId, std::string line)> request;
    /// The client has taken what was queued: there is room for more.
    std::function<void(ClientId)> drained;
    std::function<void(ClientId)> gone;
  };
  static constexpr std::size_t kClientsMax = 64;
  static constexpr std::size_t kRequestBytesMax = 64 * 1024;
  /// What may wait behind the line that is being sent; a reader that is further behind is dropped.
  static constexpr std::size_t kQueueBytesMax = 8 * 1024 * 1024;

  ControlServer(boost::asio::io_context& context, Handlers handlers);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// `<directory>/control.sock`, mode 0600; what is left of an earlier one goes. The caller holds
  /// the directory's lock.
  [[nodiscard]] Result<void> listen(const std::string& directory);
  void send(ClientId client, std::string line);
  /// Bytes that wait for the client; 0 for one that is gone.
  [[nodiscard]] std::size_t waiting(ClientId client) const;
  /// After what is queued was sent.
  void finish(ClientId client);
  /// No new clients; those that are there are finished, except these: they are still served.
  void stop(const std::set<ClientId>& except = {});
  [[nodiscard]] bool idle() const;  ///< no client is left

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace dlaunch::launcher::controller
