// The agent's connection to its controller: dialled again and again until the agent leaves.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/rng.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/bootstrap.h"
#include "rendezvous/io/byte_stream.h"
#include "supervisor/host/io/outbox.h"

namespace dlaunch::supervisor::host {

/// Shared by its coroutines; lives on the io_context's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Handlers {
    std::function<void(const std::string& address)> dialing;
    std::function<void()> up;
    std::function<void(const std::string& reason)> down;
    std::function<void(protocol::ControllerFrame)> frame;
  };
  Connection(boost::asio::io_context& context, const protocol::Bootstrap& bootstrap,
             Handlers handlers);

  void start();
  /// Waits in the outbox while there is a connection; without one it is dropped. A controller that
  /// does not read it loses the connection: the welcome of the next one repeats what matters.
  void send(protocol::AgentFrame frame);
  /// Ends the present connection; the next is dialled.
  void reconnect(const std::string& reason);
  /// Sends what waits until the controller has acknowledged it or closed, at most `limit` long;
  /// then calls `done`.
  void finish(nanoseconds limit, std::function<void()> done);
  /// Our own address of the newest connection; empty: never connected.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }

 private:
  using Stream = std::shared_ptr<rendezvous::ByteStream>;
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<Result<Stream>> dial(protocol::ControllerAddress address);
  boost::asio::awaitable<std::string> read_frames(Stream stream);
  boost::asio::awaitable<void> write_frames(Stream stream);
  boost::asio::awaitable<void> pause(nanoseconds length);

  boost::asio::io_context& context_;
  protocol::Bootstrap bootstrap_;
  Handlers handlers_;
  boost::asio::ssl::context tls_;
  boost::asio::steady_timer wake_;
  Rng rng_;
  Outbox outbox_;
  Stream stream_;
  std::string local_address_;
  std::string close_reason_;
  std::uint64_t received_ = 0;
  bool stopped_ = false;
  std::function<void()> finished_;
};

}  // namespace dlaunch::supervisor::host
