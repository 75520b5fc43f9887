#include "rendezvous/io/tls_stream.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "rendezvous/io/psk.h"

namespace dlaunch::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
constexpr const char* kHandshake = "the TLS handshake";
constexpr const char* kReading = "reading";
constexpr const char* kWriting = "writing";

TlsStream::Wire& wire_of(BIO* bio) { return *static_cast<TlsStream::Wire*>(BIO_get_data(bio)); }

bool must_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int write_wire(BIO* bio, const char* bytes, int count) {
  auto& wire = wire_of(bio);
  BIO_clear_retry_flags(bio);
  const auto sent =
      ::send(wire.descriptor, bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<int>(sent);
  if (must_wait(errno)) {
    BIO_set_retry_write(bio);
  } else {
    wire.error = errno;
  }
  return -1;
}

int read_wire(BIO* bio, char* bytes, int count) {
  auto& wire = wire_of(bio);
  BIO_clear_retry_flags(bio);
  if (wire.begin < wire.end) {
    const auto taken = std::min(static_cast<std::size_t>(count), wire.end - wire.begin);
    std::copy_n(wire.received.begin() + static_cast<std::ptrdiff_t>(wire.begin), taken, bytes);
    wire.begin += taken;
    return static_cast<int>(taken);
  }
  if (wire.ended) return 0;
  // A socket that was just drained is not asked again before it has something to say.
  if (wire.drained) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const auto came = ::recv(wire.descriptor, bytes, static_cast<std::size_t>(count), MSG_DONTWAIT);
  wire.drained = came < count;
  if (came > 0) return static_cast<int>(came);
  if (came == 0) {
    wire.ended = true;
    return 0;
  }
  if (must_wait(errno)) {
    BIO_set_retry_read(bio);
  } else {
    wire.error = errno;
  }
  return -1;
}

long control_wire(BIO*, int what, long, void*) { return what == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* make_wire(TlsStream::Wire& wire) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "dlaunch socket");
    BIO_meth_set_write(made, &write_wire);
    BIO_meth_set_read(made, &read_wire);
    BIO_meth_set_ctrl(made, &control_wire);
    return made;
  }();
  BIO* bio = BIO_new(method);
  DL_CHECK(bio != nullptr, "OpenSSL makes a BIO");
  BIO_set_data(bio, &wire);
  BIO_set_init(bio, 1);
  return bio;
}

tl::unexpected<Error> closed_by_peer() {
  return failure(std::error_code(), "the other side closed the connection");
}

}  // namespace

void prepare_control_socket(ControlSocket<asio::ip::tcp>& socket) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(false), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

TlsStream::TlsStream(Socket socket, asio::ssl::context& context)
    : socket_(std::move(socket)), ssl_(SSL_new(context.native_handle()), &SSL_free) {
  DL_CHECK(ssl_ != nullptr, "OpenSSL makes a connection");
  wire_.descriptor = socket_.native_handle();
  BIO* bio = make_wire(wire_);
  SSL_set_bio(ssl_.get(), bio, bio);
}

TlsStream::~TlsStream() = default;

Result<TlsStream::Wait> TlsStream::wanted_after(int outcome, const char* doing) {
  const int kind = SSL_get_error(ssl_.get(), outcome);
  if (kind == SSL_ERROR_WANT_READ) return Wait::wait_read;
  if (kind == SSL_ERROR_WANT_WRITE) return Wait::wait_write;
  if (wire_.error != 0) {
    return failure(std::error_code(wire_.error, std::system_category()), doing);
  }
  if (kind == SSL_ERROR_ZERO_RETURN || wire_.ended) return closed_by_peer();
  const error_code code(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category());
  return failure(std::error_code(code), doing);
}

Result<void> TlsStream::take(const error_code& code, std::size_t count) {
  wire_.begin = 0;
  wire_.end = count;
  wire_.drained = count < wire_.received.size();
  wire_.ended = code == asio::error::eof;
  if (code && !wire_.ended) return failure(std::error_code(code), kReading);
  return {};
}

/// A wait for reading reads: Asio needs one system call for that, and two for waiting alone.
asio::awaitable<Result<void>> TlsStream::wait(Wait wanted, const char* doing) {
  if (wanted == Wait::wait_read) {
    auto reading = socket_.async_receive(asio::buffer(wire_.received), kToken);
    const auto [code, count] = co_await std::move(reading);
    auto taken = take(code, count);
    if (!taken) co_return failure(taken.error().code, doing);
    co_return taken;
  }
  auto waiting = socket_.async_wait(wanted, kToken);
  const auto [code] = co_await std::move(waiting);
  if (code) co_return failure(std::error_code(code), doing);
  co_return Result<void>();
}

void TlsStream::tell_when_readable(std::shared_ptr<Reader> reader) {
  if (read_wait_ == Wait::wait_read) {
    socket_.async_receive(
        asio::buffer(wire_.received),
        [this, reader = std::move(reader)](const error_code& code, std::size_t count) {
          reader->on_readable(take(code, count));
        });
    return;
  }
  socket_.async_wait(read_wait_, [reader = std::move(reader)](const error_code& code) {
    if (code) return reader->on_readable(failure(std::error_code(code), kReading));
    reader->on_readable({});
  });
}

asio::awaitable<Result<void>> TlsStream::complete(std::function<int()> call, const char* doing) {
  while (socket_.is_open()) {
    ERR_clear_error();
    const int outcome = call();
    if (outcome == 1) co_return Result<void>();
    const auto wanted = wanted_after(outcome, doing);
    if (!wanted) co_return tl::unexpected(wanted.error());
    // Only a handshake waits for words of the other side; nobody else reads meanwhile.
    auto waiting = wait(*wanted, doing);
    auto waited = co_await std::move(waiting);
    if (!waited) co_return waited;
  }
  co_return failure(std::errc::operation_canceled, doing);
}

asio::awaitable<Result<HostId>> TlsStream::accept_handshake() {
  std::function<int()> call = [this] { return SSL_accept(ssl_.get()); };
  auto shaking = complete(std::move(call), kHandshake);
  const auto shaken = co_await std::move(shaking);
  if (!shaken) co_return tl::unexpected(shaken.error());
  const auto host = proven_host(ssl_.get());
  if (!host) co_return failure(std::errc::permission_denied, kHandshake);
  co_return *host;
}

asio::awaitable<Result<void>> TlsStream::connect_handshake() {
  std::function<int()> call = [this] { return SSL_connect(ssl_.get()); };
  auto shaking = complete(std::move(call), kHandshake);
  const auto shaken = co_await std::move(shaking);
  if (!shaken) co_return tl::unexpected(shaken.error());
  if (!server_is_proven(ssl_.get())) co_return failure(std::errc::permission_denied, kHandshake);
  co_return Result<void>();
}

Result<std::size_t> TlsStream::read_now(std::span<char> buffer) {
  if (!socket_.is_open()) return failure(std::errc::operation_canceled, kReading);
  // Asked, OpenSSL would take a while to find that out.
  if (read_wait_ == Wait::wait_read && !wire_.may_have_more() && !SSL_has_pending(ssl_.get())) {
    return 0;
  }
  ERR_clear_error();
  std::size_t count = 0;
  const int outcome = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &count);
  if (outcome == 1) return count;
  const auto wanted = wanted_after(outcome, kReading);
  if (!wanted) return tl::unexpected(wanted.error());
  read_wait_ = *wanted;
  return 0;
}

asio::awaitable<Result<void>> TlsStream::readable() { return wait(read_wait_, kReading); }

asio::awaitable<Result<std::size_t>> TlsStream::read_some(std::span<char> buffer) {
  while (true) {
    const auto count = read_now(buffer);
    if (!count || *count > 0) co_return count;
    auto waiting = readable();
    const auto ready = co_await std::move(waiting);
    if (!ready) co_return tl::unexpected(ready.error());
  }
}

asio::awaitable<Result<void>> TlsStream::write(std::string_view bytes) {
  std::function<int()> call = [this, bytes] {
    std::size_t count = 0;
    return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
  };
  return complete(std::move(call), kWriting);
}

Result<bool> TlsStream::write_now(std::string_view bytes) {
  if (!socket_.is_open()) return failure(std::errc::operation_canceled, kWriting);
  ERR_clear_error();
  std::size_t count = 0;
  const int outcome = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
  if (outcome == 1) return true;
  if (const auto wanted = wanted_after(outcome, kWriting); !wanted) {
    return tl::unexpected(wanted.error());
  }
  return false;
}

void TlsStream::close() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace dlaunch::rendezvous
