#include "supervisor/host/io/relay.h"

#include <fcntl.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "base/io/must_not_throw.h"
#include "supervisor/host/io/peer_proof.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr nanoseconds kAcceptPause = 100ms;
constexpr nanoseconds kFrameLimit = 600ms;  // a controller that is heard says something by then
constexpr nanoseconds kConnectLimit = 1s;
constexpr std::size_t kRequestBytesMax = 512;
constexpr std::size_t kBufferBytes = 16 * 1024;
constexpr std::size_t kLengthBytes = 4;
constexpr int kBacklog = 16;

void shut(rendezvous::ControlSocket<tcp>& socket) {
  error_code ignored;
  socket.close(ignored);
}

}  // namespace

/// Two directions of one relayed connection; either end closes both.
struct Relay::Pipe {
  Pipe(asio::io_context& context, Socket a, Socket b)
      : ends{std::move(a), std::move(b)}, idle(context) {}
  void close() {
    idle.cancel();
    for (const auto& end : ends) shut(*end);
  }
  std::array<Socket, 2> ends;
  asio::steady_timer idle;
};

Relay::Relay(asio::io_context& context, Setting setting)
    : context_(context),
      setting_(std::move(setting)),
      acceptor_(context),
      frame_(context, asio::steady_timer::time_point::max()) {}

std::uint32_t Relay::open(const std::string& address, PortRange range) {
  error_code code;
  const auto numeric = asio::ip::make_address(address, code);
  if (code) return 0;
  const auto port = find_port(range, 0, [&](std::uint32_t wanted) {
    rendezvous::ControlAcceptor acceptor(context_);
    error_code failed;
    const tcp::endpoint endpoint(numeric, static_cast<std::uint16_t>(wanted));
    acceptor.open(endpoint.protocol(), failed);
    if (!failed) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!failed) acceptor.bind(endpoint, failed);
    if (!failed) acceptor.listen(kBacklog, failed);
    if (failed) return 0U;
    const auto bound = acceptor.local_endpoint(failed).port();
    acceptor_ = std::move(acceptor);
    return static_cast<std::uint32_t>(bound);
  });
  if (port != 0) spawn(accept_all());
  return port;
}

void Relay::spawn(asio::awaitable<void> work) {
  auto keep = [self = shared_from_this()](const std::exception_ptr& problem) {
    must_not_throw(problem);
  };
  asio::co_spawn(context_, std::move(work), std::move(keep));
}

void Relay::heard() {
  ++frames_;
  frame_.cancel();
}

void Relay::close() {
  closed_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  frame_.cancel();
  for (const auto& socket : std::exchange(open_, {})) shut(*socket);
}

asio::awaitable<void> Relay::accept_all() {
  while (!closed_) {
    auto accepting = acceptor_.async_accept(kAwait);
    auto [code, socket] = co_await std::move(accepting);
    if (closed_) co_return;
    if (code) {
      asio::steady_timer pause(context_, kAcceptPause);
      auto waiting = pause.async_wait(kAwait);
      co_await std::move(waiting);
      continue;
    }
    if (asking_ >= kAskingMax || relayed_ >= kRelayedMax) {
      ++refused_;
      continue;
    }
    auto from = std::make_shared<rendezvous::ControlSocket<tcp>>(std::move(socket));
    rendezvous::prepare_control_socket(*from);
    spawn(serve(std::move(from)));
  }
}

asio::awaitable<void> Relay::serve(Socket from) {
  open_.insert(from);
  ++asking_;
  asio::steady_timer limit(context_, setting_.request_limit);
  limit.async_wait([from](const error_code& code) {
    if (!code) shut(*from);
  });
  auto asking = is_asked(from);
  const bool asked = co_await std::move(asking);
  limit.cancel();
  bool speaks = false;
  if (asked) {
    auto listening = controller_speaks();
    speaks = co_await std::move(listening);
  }
  --asking_;
  if (speaks && from->is_open()) {
    ++relayed_;
    auto passing = pass(from);
    co_await std::move(passing);
    --relayed_;
  } else {
    ++refused_;
  }
  shut(*from);
  open_.erase(from);
}

asio::awaitable<bool> Relay::is_asked(Socket from) {
  const auto nonce = make_nonce();
  auto saying = asio::async_write(*from, asio::buffer(nonce), kAwait);
  const auto said = co_await std::move(saying);
  if (std::get<0>(said)) co_return false;
  std::array<unsigned char, kLengthBytes> length{};
  auto reading = asio::async_read(*from, asio::buffer(length), kAwait);
  const auto read = co_await std::move(reading);
  if (std::get<0>(read)) co_return false;
  std::size_t bytes = 0;
  for (const auto byte : length) bytes = (bytes << 8U) | byte;
  if (bytes == 0 || bytes > kRequestBytesMax) co_return false;
  std::string text(bytes, '\0');
  auto rest = asio::async_read(*from, asio::buffer(text), kAwait);
  const auto whole = co_await std::move(rest);
  if (std::get<0>(whole)) co_return false;
  protocol::RelayRequest request;
  co_return request.ParseFromString(text) && is_signed(key_, request) &&
      request.job() == setting_.job&& request.to() == setting_.host.value&& request.nonce() ==
          nonce;
}

/// Only while this agent hears the controller itself there is a point in passing bytes on: one that
/// stands still, or is cut off from everybody, would be asked by all for nothing.
asio::awaitable<bool> Relay::controller_speaks() {
  const auto before = frames_;
  if (!setting_.way()) co_return false;
  asio::steady_timer limit(context_, kFrameLimit);
  limit.async_wait([self = shared_from_this()](const error_code& code) {
    if (!code) self->frame_.cancel();
  });
  while (frames_ == before && !closed_ && limit.expiry() > asio::steady_timer::clock_type::now()) {
    auto waiting = frame_.async_wait(kAwait);
    const auto woken = co_await std::move(waiting);
    static_cast<void>(woken);
  }
  limit.cancel();
  co_return frames_ != before && !closed_;
}

asio::awaitable<void> Relay::pass(Socket from) {
  const auto way = setting_.way();
  if (!way) co_return;
  error_code code;
  const auto address = asio::ip::make_address(way->address, code);
  if (code) co_return;
  auto to = std::make_shared<rendezvous::ControlSocket<tcp>>(context_);
  open_.insert(to);
  asio::steady_timer limit(context_, kConnectLimit);
  limit.async_wait([to](const error_code& late) {
    if (!late) shut(*to);
  });
  const tcp::endpoint endpoint(address, way->port);
  auto connecting = to->async_connect(endpoint, kAwait);
  const auto connected = co_await std::move(connecting);
  limit.cancel();
  if (!std::get<0>(connected) && !closed_ && from->is_open()) {
    rendezvous::prepare_control_socket(*to);
    auto pipe = std::make_shared<Pipe>(context_, from, to);
    spawn(copy(pipe, to, from));
    auto copying = copy(pipe, from, to);
    co_await std::move(copying);
  }
  shut(*to);
  open_.erase(to);
}

asio::awaitable<void> Relay::copy(std::shared_ptr<Pipe> pipe, Socket from, Socket to) {
  std::array<char, kBufferBytes> buffer{};
  while (true) {
    pipe->idle.expires_after(setting_.idle_limit);
    pipe->idle.async_wait([pipe](const error_code& code) {
      if (!code) pipe->close();
    });
    auto reading = from->async_read_some(asio::buffer(buffer), kAwait);
    const auto read = co_await std::move(reading);
    if (std::get<0>(read)) break;
    auto writing = asio::async_write(*to, asio::buffer(buffer.data(), std::get<1>(read)), kAwait);
    const auto written = co_await std::move(writing);
    if (std::get<0>(written)) break;
  }
  pipe->close();
}

}  // namespace dlaunch::supervisor::host
