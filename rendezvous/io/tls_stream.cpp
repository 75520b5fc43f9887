#include "rendezvous/io/tls_stream.h"

#include <fcntl.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "rendezvous/io/psk.h"

namespace dlaunch::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

/// Asio's own words for the common ends say little to a person.
tl::unexpected<Error> ended(const error_code& code, const char* doing) {
  if (code == asio::error::eof || code == asio::ssl::error::stream_truncated) {
    return failure(std::error_code(), "the other side closed the connection");
  }
  return failure(std::error_code(code), doing);
}

}  // namespace

void prepare_control_socket(asio::ip::tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(false), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

TlsStream::TlsStream(asio::generic::stream_protocol::socket socket, asio::ssl::context& context)
    : stream_(std::move(socket), context) {}

asio::awaitable<Result<HostId>> TlsStream::accept_handshake() {
  const auto [code] = co_await stream_.async_handshake(asio::ssl::stream_base::server, kToken);
  if (code) co_return ended(code, "the TLS handshake");
  const auto host = proven_host(stream_.native_handle());
  if (!host) co_return failure(std::errc::permission_denied, "the TLS handshake");
  co_return *host;
}

asio::awaitable<Result<void>> TlsStream::connect_handshake() {
  const auto [code] = co_await stream_.async_handshake(asio::ssl::stream_base::client, kToken);
  if (code) co_return ended(code, "the TLS handshake");
  if (!server_is_proven(stream_.native_handle())) {
    co_return failure(std::errc::permission_denied, "the TLS handshake");
  }
  co_return Result<void>();
}

asio::awaitable<Result<std::size_t>> TlsStream::read_some(std::span<char> buffer) {
  const auto into = asio::buffer(buffer.data(), buffer.size());
  const auto [code, count] = co_await stream_.async_read_some(into, kToken);
  if (code) co_return ended(code, "reading");
  co_return count;
}

asio::awaitable<Result<void>> TlsStream::write(std::string_view bytes) {
  const auto from = asio::buffer(bytes.data(), bytes.size());
  const auto [code, count] = co_await asio::async_write(stream_, from, kToken);
  if (code) co_return ended(code, "writing");
  co_return Result<void>();
}

void TlsStream::close() {
  error_code ignored;
  stream_.next_layer().close(ignored);
}

}  // namespace dlaunch::rendezvous
