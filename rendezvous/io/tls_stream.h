// A byte stream over TLS 1.3 with the job's keys.
#pragma once

#include <array>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "rendezvous/io/byte_stream.h"

struct ssl_st;

namespace dlaunch::rendezvous {

/// Sockets that know the type of their executor: each operation would have to ask it otherwise.
template <class Protocol>
using ControlSocket =
    boost::asio::basic_stream_socket<Protocol, boost::asio::io_context::executor_type>;

using ControlAcceptor = boost::asio::basic_socket_acceptor<boost::asio::ip::tcp,
                                                           boost::asio::io_context::executor_type>;

/// Turns off delay and keepalive: liveness is counted in frames. Closes on exec.
void prepare_control_socket(ControlSocket<boost::asio::ip::tcp>& socket);

/// Over a TCP or a Unix socket, which it owns; `context` outlives it. OpenSSL reads and writes the
/// socket itself: Asio's own stream keeps 34 KiB of buffers for each connection that says nothing
/// most of the time.
class TlsStream final : public ByteStream {
 public:
  using Socket = ControlSocket<boost::asio::generic::stream_protocol>;
  TlsStream(Socket socket, boost::asio::ssl::context& context);
  ~TlsStream() override;

  /// The server's side: who proved itself. An error when it is nobody of this job.
  [[nodiscard]] boost::asio::awaitable<Result<HostId>> accept_handshake();
  /// The client's side: an error when the server has not got the key.
  [[nodiscard]] boost::asio::awaitable<Result<void>> connect_handshake();

  [[nodiscard]] boost::asio::awaitable<Result<std::size_t>> read_some(
      std::span<char> buffer) override;
  [[nodiscard]] Result<std::size_t> read_now(std::span<char> buffer) override;
  void tell_when_readable(std::shared_ptr<Reader> reader) override;
  /// The same as a coroutine.
  [[nodiscard]] boost::asio::awaitable<Result<void>> readable();
  [[nodiscard]] boost::asio::awaitable<Result<void>> write(std::string_view bytes) override;
  [[nodiscard]] Result<bool> write_now(std::string_view bytes) override;
  void close() override;

  /// What OpenSSL sees of the socket.
  struct Wire {
    // A heartbeat of eight workers has less; what is more is read where it goes.
    static constexpr std::size_t kReceivedBytes = 1024;
    int descriptor = -1;
    bool drained = true;  ///< the last read took all that was there
    bool ended = false;   ///< the peer sends no more
    int error = 0;        ///< errno of the last failure
    std::array<char, kReceivedBytes> received{};
    std::size_t begin = 0, end = 0;  ///< of what OpenSSL has not taken yet

    /// False: reading would only say that it must wait.
    [[nodiscard]] bool may_have_more() const { return begin < end || ended || !drained; }
  };

 private:
  using Wait = Socket::wait_type;
  /// Calls OpenSSL, and calls it again whenever what it waits for may have come, until it is done.
  [[nodiscard]] boost::asio::awaitable<Result<void>> complete(std::function<int()> call,
                                                              const char* doing);
  /// What the socket said when it was asked for what the peer sent.
  [[nodiscard]] Result<void> take(const boost::system::error_code& code, std::size_t count);
  /// Until `wanted` has come, or for writing may go on.
  [[nodiscard]] boost::asio::awaitable<Result<void>> wait(Wait wanted, const char* doing);
  /// After a call of OpenSSL that returned `outcome`: what to wait for; an error ends the stream.
  [[nodiscard]] Result<Wait> wanted_after(int outcome, const char* doing);

  Socket socket_;
  Wire wire_;
  Wait read_wait_ = Wait::wait_read;  ///< what `readable` waits for
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
};

}  // namespace dlaunch::rendezvous
