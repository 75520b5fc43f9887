// Passes the bytes of an agent on whose own path to the controller is cut, and learns nothing.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/bootstrap.h"
#include "rendezvous/io/tls_stream.h"
#include "supervisor/host/io/pick_port.h"

namespace dlaunch::supervisor::host {

/// Shared by its coroutines; lives on the io_context's thread. Whoever connects says nothing until
/// it has been told a nonce, and gets no byte further without the job's peer key.
class Relay : public std::enable_shared_from_this<Relay> {
 public:
  // An agent is a candidate for a handful of others; a rack's worth of them may come at once.
  static constexpr std::size_t kRelayedMax = 16;
  static constexpr std::size_t kAskingMax = 16;

  struct Setting {
    std::string job;
    HostId host;
    /// Where this agent's own direct connection leads; nullopt: it has none.
    std::function<std::optional<protocol::ControllerAddress>()> way;
    nanoseconds request_limit = 1s;  ///< from accept to the whole request
    nanoseconds idle_limit = 10s;    ///< heartbeats go both ways all the time
  };
  Relay(boost::asio::io_context& context, Setting setting);

  /// Listens on a port of the range (first 0: any) at the numeric address. 0: none could be had.
  [[nodiscard]] std::uint32_t open(const std::string& address, PortRange range);
  void set_key(std::string key) { key_ = std::move(key); }
  /// A frame of the controller came over this agent's own connection.
  void heard();
  void close();
  [[nodiscard]] std::size_t relayed() const { return relayed_; }
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  using Socket = std::shared_ptr<rendezvous::ControlSocket<boost::asio::ip::tcp>>;
  struct Pipe;

  boost::asio::awaitable<void> accept_all();
  boost::asio::awaitable<void> serve(Socket from);
  boost::asio::awaitable<bool> is_asked(Socket from);
  boost::asio::awaitable<bool> controller_speaks();
  boost::asio::awaitable<void> pass(Socket from);
  boost::asio::awaitable<void> copy(std::shared_ptr<Pipe> pipe, Socket from, Socket to);
  void spawn(boost::asio::awaitable<void> work);

  boost::asio::io_context& context_;
  Setting setting_;
  std::string key_;
  rendezvous::ControlAcceptor acceptor_;
  boost::asio::steady_timer frame_;  ///< cancelled by each frame of the controller
  std::uint64_t frames_ = 0;
  std::set<Socket> open_;
  std::size_t asking_ = 0;
  std::size_t relayed_ = 0;
  std::uint64_t refused_ = 0;
  bool closed_ = false;
};

}  // namespace dlaunch::supervisor::host
