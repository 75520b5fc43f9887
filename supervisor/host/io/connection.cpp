#include "supervisor/host/io/connection.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

#include "base/io/clock.h"
#include "protocol/framing.h"
#include "protocol/limits.h"
#include "rendezvous/io/psk.h"
#include "rendezvous/io/tls_stream.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr nanoseconds kConnectLimit = 1500ms;  // a cut network answers nothing; one lost SYN is met
constexpr nanoseconds kHandshakeLimit = 3s;
constexpr nanoseconds kPauseMin = 100ms;
constexpr nanoseconds kPauseMax = 1s;
constexpr unsigned kUserTimeoutMs = 10'000;  // unacknowledged for so long: another connection

}  // namespace

Connection::Connection(asio::io_context& context, const protocol::Bootstrap& bootstrap,
                       Handlers handlers)
    : context_(context),
      bootstrap_(bootstrap),
      handlers_(std::move(handlers)),
      tls_(asio::ssl::context::tls_client),
      wake_(context),
      rng_(std::random_device{}()) {
  const auto key = rendezvous::secret_from_hex(bootstrap_.secret_hex);
  rendezvous::use_psk_client(tls_.native_handle(),
                             rendezvous::psk_identity(bootstrap_.job, bootstrap_.host_id),
                             key.value_or(rendezvous::Secret{}));
}

void Connection::start() {
  auto self = shared_from_this();
  asio::co_spawn(
      context_, [self]() { return self->run(); }, asio::detached);
}

asio::awaitable<void> Connection::pause(nanoseconds length) {
  asio::steady_timer timer(context_);
  timer.expires_after(length);
  const auto waited = co_await timer.async_wait(kAwait);
  static_cast<void>(waited);
}

asio::awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  auto wait = kPauseMin;
  std::size_t next = 0;
  while (!stopped_) {
    const auto address = bootstrap_.addresses[next++ % bootstrap_.addresses.size()];
    handlers_.dialing(address.address + " port " + std::to_string(address.port));
    auto stream = co_await dial(address);
    if (stopped_) co_return;
    if (!stream) {
      handlers_.down(stream.error().text());
      const auto jittered = rng_.between(wait / 2, wait);
      co_await pause(jittered);
      if (next % bootstrap_.addresses.size() == 0) wait = std::min(wait * 2, kPauseMax);
      continue;
    }
    wait = kPauseMin;
    --next;  // the address that works is the first to be tried again
    stream_ = *stream;
    received_ = 0;
    outbox_.clear();
    asio::co_spawn(
        context_, [self, open = *stream]() { return self->write_frames(open); }, asio::detached);
    handlers_.up();
    const auto reason = co_await read_frames(*stream);
    stream_->close();
    stream_.reset();
    wake_.cancel();
    if (finished_) std::exchange(finished_, nullptr)();
    if (stopped_) co_return;
    handlers_.down(close_reason_.empty() ? reason : std::exchange(close_reason_, ""));
    const auto jittered = rng_.between(kPauseMin / 4, kPauseMin);
    co_await pause(jittered);
  }
}

asio::awaitable<Result<Connection::Stream>> Connection::dial(protocol::ControllerAddress address) {
  const auto doing =
      "dialling the controller at " + address.address + " port " + std::to_string(address.port);
  boost::system::error_code code;
  const auto ip = asio::ip::make_address(address.address, code);
  if (code) co_return failure(code, doing);
  const tcp::endpoint endpoint(ip, address.port);
  auto socket = std::make_shared<tcp::socket>(context_);
  asio::steady_timer limit(context_);
  limit.expires_after(kConnectLimit);
  std::weak_ptr<tcp::socket> pending = socket;
  limit.async_wait([pending](const boost::system::error_code& timer_code) {
    boost::system::error_code ignored;
    if (auto open = pending.lock(); !timer_code && open) open->close(ignored);
  });
  const auto connected = co_await socket->async_connect(endpoint, kAwait);
  const auto connect_code = std::get<0>(connected);
  if (connect_code) {
    const bool late = connect_code == asio::error::operation_aborted;
    co_return failure(
        late ? std::make_error_code(std::errc::timed_out) : std::error_code(connect_code), doing);
  }
  rendezvous::prepare_control_socket(*socket);
  const unsigned timeout = kUserTimeoutMs;
  ::setsockopt(socket->native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
  local_address_ = socket->local_endpoint(code).address().to_string();
  limit.cancel();
  auto stream = std::make_shared<rendezvous::TlsStream>(std::move(*socket), tls_);
  std::weak_ptr<rendezvous::TlsStream> shaking = stream;
  limit.expires_after(kHandshakeLimit);
  limit.async_wait([shaking](const boost::system::error_code& timer_code) {
    if (auto open = shaking.lock(); !timer_code && open) open->close();
  });
  const auto shaken = co_await stream->connect_handshake();
  limit.cancel();
  if (!shaken) co_return failure(shaken.error().code, doing + ": " + shaken.error().doing);
  co_return Stream(stream);
}

asio::awaitable<std::string> Connection::read_frames(Stream stream) {
  protocol::FrameReader reader(protocol::kFrameBytesMax);
  std::vector<char> buffer(64 * 1024);
  while (!stopped_) {
    const auto count = co_await stream->read_some(buffer);
    if (!count) co_return count.error().text();
    reader.feed(std::string_view(buffer.data(), *count));
    while (stream == stream_) {
      auto message = reader.next();
      if (!message) co_return message.error().text();
      if (!*message) break;
      protocol::ControllerFrame frame;
      if (!frame.ParseFromString(**message)) co_return std::string("a frame cannot be read");
      received_ = frame.number();
      if (finished_ && outbox_.empty() && frame.acknowledged() >= outbox_.number()) {
        std::exchange(finished_, nullptr)();
      }
      handlers_.frame(std::move(frame));
    }
    if (stream != stream_) co_return std::string("closed by this agent");
  }
  co_return std::string("the agent leaves");
}

asio::awaitable<void> Connection::write_frames(Stream stream) {
  const auto self = shared_from_this();
  while (stream == stream_) {
    if (outbox_.empty()) {
      wake_.expires_after(std::chrono::hours(1));
      const auto woken = co_await wake_.async_wait(kAwait);
      static_cast<void>(woken);
      continue;
    }
    const auto bytes = outbox_.take(received_);
    const auto written = co_await stream->write(bytes);
    if (!written) {
      stream->close();
      co_return;
    }
  }
}

void Connection::send(protocol::AgentFrame frame) {
  if (!stream_) return;
  if (!outbox_.push(std::move(frame))) {
    return reconnect("the controller does not read: " +
                     std::to_string(protocol::kSendQueueBytesMax >> 20U) + " MiB wait for it");
  }
  wake_.cancel();
}

void Connection::reconnect(const std::string& reason) {
  close_reason_ = reason;
  if (stream_) stream_->close();
}

void Connection::finish(nanoseconds limit, std::function<void()> done) {
  auto once = std::make_shared<std::function<void()>>(std::move(done));
  auto call = [once] {
    if (auto action = std::exchange(*once, nullptr)) action();
  };
  if (!stream_) {
    stopped_ = true;
    asio::post(context_, call);
    return;
  }
  // Written is not yet read: a socket that is closed with bytes unread resets what is on its way.
  finished_ = call;
  wake_.cancel();
  auto timer = std::make_shared<asio::steady_timer>(context_);
  timer->expires_after(limit);
  timer->async_wait([timer, call](const boost::system::error_code&) { call(); });
}

}  // namespace dlaunch::supervisor::host
