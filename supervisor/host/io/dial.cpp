#include "supervisor/host/io/dial.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "protocol/framing.h"
#include "supervisor/host/io/peer_proof.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr nanoseconds kConnectLimit = 1500ms;  // a cut network answers nothing; one lost SYN is met
constexpr nanoseconds kHandshakeLimit = 3s;
constexpr nanoseconds kRelayConnectLimit = 500ms;  // it is near, and others wait for their turn
constexpr nanoseconds kRelayLimit = 1500ms;        // it hears the controller, dials it, TLS
constexpr nanoseconds kTunnelLimit = 5s;           // a login host and a slow link are between
constexpr unsigned kUserTimeoutMs = 10'000;        // unacknowledged for so long: another connection

/// What the kernel would send from; empty: no route there.
std::string own_address(asio::io_context& context,
                        const std::vector<protocol::ControllerAddress>& towards) {
  for (const auto& one : towards) {
    boost::system::error_code code;
    const auto ip = asio::ip::make_address(one.address, code);
    if (code) continue;
    asio::ip::udp::socket socket(context);
    socket.connect(asio::ip::udp::endpoint(ip, one.port), code);
    if (code) continue;
    const auto local = socket.local_endpoint(code);
    if (!code) return local.address().to_string();
  }
  return "";
}

}  // namespace

void Dial::give_up() {
  limit_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (shaking_) shaking_->close();
}

void Dial::arm(nanoseconds limit) {
  limit_.expires_after(limit);
  limit_.async_wait([this](const boost::system::error_code& code) {
    if (!code) give_up();
  });
}

asio::awaitable<Result<void>> Dial::connect(std::string address, std::uint32_t port,
                                            nanoseconds limit) {
  boost::system::error_code code;
  const auto ip = asio::ip::make_address(address, code);
  if (code) co_return failure(code, "reading the address");
  const tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(port));
  arm(limit);
  auto connecting = socket_.async_connect(endpoint, kAwait);
  const auto connected = co_await std::move(connecting);
  limit_.cancel();
  const auto connect_code = std::get<0>(connected);
  if (connect_code == asio::error::operation_aborted) {
    co_return failure(std::errc::timed_out, "connecting");
  }
  if (connect_code) co_return failure(connect_code, "connecting");
  rendezvous::prepare_control_socket(socket_);
  const unsigned timeout = kUserTimeoutMs;
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
  co_return Result<void>();
}

asio::awaitable<Result<Dial::Open>> Dial::shake_hands(
    std::shared_ptr<rendezvous::TlsStream> stream) {
  Open open;
  shaking_ = stream;
  auto shaking = stream->connect_handshake();
  const auto shaken = co_await std::move(shaking);
  limit_.cancel();
  shaking_.reset();
  if (!shaken) co_return tl::unexpected(shaken.error());
  open.stream = stream;
  co_return open;
}

asio::awaitable<Result<Dial::Open>> Dial::directly(protocol::ControllerAddress address) {
  const auto doing =
      "dialling the controller at " + address.address + " port " + std::to_string(address.port);
  auto connecting = connect(address.address, address.port, kConnectLimit);
  const auto connected = co_await std::move(connecting);
  if (!connected) co_return failure(connected.error().code, doing);
  arm(kHandshakeLimit);
  boost::system::error_code ignored;
  const auto local = socket_.local_endpoint(ignored).address().to_string();
  auto shaking = shake_hands(std::make_shared<rendezvous::TlsStream>(std::move(socket_), tls_));
  auto open = co_await std::move(shaking);
  if (!open) co_return failure(open.error().code, doing + ": " + open.error().doing);
  open->local_address = local;
  co_return std::move(open);
}

asio::awaitable<Result<Dial::Open>> Dial::over(FileDescriptor socket,
                                               std::vector<protocol::ControllerAddress> towards) {
  rendezvous::ControlSocket<asio::local::stream_protocol> tunnel(
      context_, asio::local::stream_protocol(), socket.release());
  arm(kTunnelLimit);
  auto shaking = shake_hands(std::make_shared<rendezvous::TlsStream>(std::move(tunnel), tls_));
  auto open = co_await std::move(shaking);
  if (!open) co_return failure(open.error().code, "over the SSH connection: " + open.error().doing);
  open->local_address = own_address(context_, towards);
  co_return std::move(open);
}

asio::awaitable<Result<void>> Dial::ask(protocol::RelayRequest request, std::string key) {
  std::string nonce(kNonceBytes, '\0');
  auto reading = asio::async_read(socket_, asio::buffer(nonce), kAwait);
  const auto read = co_await std::move(reading);
  if (std::get<0>(read)) co_return failure(std::get<0>(read), "its nonce");
  request.set_nonce(nonce);
  sign(key, request);
  const auto frame = protocol::frame(request.SerializeAsString());
  auto writing = asio::async_write(socket_, asio::buffer(frame), kAwait);
  const auto written = co_await std::move(writing);
  if (std::get<0>(written)) co_return failure(std::get<0>(written), "the request");
  co_return Result<void>();
}

asio::awaitable<Result<Dial::Open>> Dial::through(protocol::Peer peer,
                                                  protocol::RelayRequest request, std::string key) {
  const auto doing = "asking " + peer.name() + " to relay";
  auto connecting = connect(peer.address(), peer.relay_port(), kRelayConnectLimit);
  const auto connected = co_await std::move(connecting);
  if (!connected) co_return failure(connected.error().code, doing);
  arm(kRelayLimit);
  auto asking = ask(std::move(request), std::move(key));
  const auto asked = co_await std::move(asking);
  if (!asked) co_return failure(asked.error().code, doing + ": " + asked.error().doing);
  boost::system::error_code ignored;
  const auto local = socket_.local_endpoint(ignored).address().to_string();
  auto shaking = shake_hands(std::make_shared<rendezvous::TlsStream>(std::move(socket_), tls_));
  auto open = co_await std::move(shaking);
  if (!open) co_return failure(open.error().code, doing + ": " + open.error().doing);
  open->local_address = local;
  co_return std::move(open);
}

}  // namespace dlaunch::supervisor::host
