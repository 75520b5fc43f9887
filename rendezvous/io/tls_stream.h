// A byte stream over TLS 1.3 with the job's keys.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <string>

#include "base/ids.h"
#include "rendezvous/io/byte_stream.h"

namespace dlaunch::rendezvous {

/// Turns off delay and keepalive: liveness is counted in frames. Closes on exec.
void prepare_control_socket(boost::asio::ip::tcp::socket& socket);

/// Over a TCP or a Unix socket, which it owns; `context` outlives it.
class TlsStream final : public ByteStream {
 public:
  TlsStream(boost::asio::generic::stream_protocol::socket socket,
            boost::asio::ssl::context& context);

  /// The server's side: who proved itself. An error when it is nobody of this job.
  [[nodiscard]] boost::asio::awaitable<Result<HostId>> accept_handshake();
  /// The client's side: an error when the server has not got the key.
  [[nodiscard]] boost::asio::awaitable<Result<void>> connect_handshake();

  [[nodiscard]] boost::asio::awaitable<Result<std::size_t>> read_some(
      std::span<char> buffer) override;
  [[nodiscard]] boost::asio::awaitable<Result<void>> write(std::string_view bytes) override;
  void close() override;

 private:
  boost::asio::ssl::stream<boost::asio::generic::stream_protocol::socket> stream_;
};

}  // namespace dlaunch::rendezvous
