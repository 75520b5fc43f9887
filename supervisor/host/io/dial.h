// Ways to the controller: directly, or through the agent of another host.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/bootstrap.h"
#include "rendezvous/io/tls_stream.h"

namespace dlaunch::supervisor::host {

/// One attempt; may be given up from outside. Kept until it ended.
class Dial {
 public:
  struct Open {
    std::shared_ptr<rendezvous::ByteStream> stream;
    std::string local_address;
  };
  Dial(boost::asio::io_context& context, boost::asio::ssl::context& tls)
      : context_(context), tls_(tls), socket_(context), limit_(context) {}

  /// The socket is connected and both sides have proved the job's key.
  [[nodiscard]] boost::asio::awaitable<Result<Open>> directly(protocol::ControllerAddress address);
  /// `request` names job, from and to; it is signed here with `key`. The relay passes bytes on and
  /// can read none of them.
  [[nodiscard]] boost::asio::awaitable<Result<Open>> through(protocol::Peer peer,
                                                             protocol::RelayRequest request,
                                                             std::string key);
  /// The socket leads to a `plant` that passes bytes on to the controller. `towards`: an address of
  /// the controller; nothing is sent there.
  [[nodiscard]] boost::asio::awaitable<Result<Open>> over(
      FileDescriptor socket, std::vector<protocol::ControllerAddress> towards);
  /// What runs ends with an error.
  void give_up();

 private:
  boost::asio::awaitable<Result<void>> connect(std::string address, std::uint32_t port,
                                               nanoseconds limit);
  boost::asio::awaitable<Result<void>> ask(protocol::RelayRequest request, std::string key);
  boost::asio::awaitable<Result<Open>> shake_hands(std::shared_ptr<rendezvous::TlsStream> stream);
  void arm(nanoseconds limit);

  boost::asio::io_context& context_;
  boost::asio::ssl::context& tls_;
  rendezvous::ControlSocket<boost::asio::ip::tcp> socket_;
  std::shared_ptr<rendezvous::ByteStream> shaking_;
  boost::asio::steady_timer limit_;
};

}  // namespace dlaunch::supervisor::host
