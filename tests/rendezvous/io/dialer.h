// The agent's end of a control connection, as little of it as a test needs.
#pragma once

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/agent_wire.pb.h"
#include "protocol/framing.h"
#include "protocol/limits.h"
#include "rendezvous/io/psk.h"
#include "rendezvous/io/tls_stream.h"

namespace dlaunch::rendezvous {

inline boost::asio::ip::tcp::endpoint loopback(std::uint16_t port) {
  return {boost::asio::ip::address_v4::loopback(), port};
}

/// Connects and proves itself, then collects what comes. Held by its own coroutine while it reads.
class Dialer : public std::enable_shared_from_this<Dialer> {
 public:
  Dialer(boost::asio::io_context& context, const std::string& identity, const Secret& key)
      : context_(context), tls_(boost::asio::ssl::context::tls_client), socket_(context) {
    use_psk_client(tls_.native_handle(), identity, key);
  }
  void start(std::uint16_t port) {
    socket_.connect(loopback(port));
    prepare_control_socket(socket_);
    stream_ = std::make_shared<TlsStream>(std::move(socket_), tls_);
    boost::asio::co_spawn(context_, run(),
                          [self = shared_from_this()](const std::exception_ptr&) {});
  }
  void send(protocol::AgentFrame frame) {
    frame.set_number(++number_);
    send_bytes(protocol::frame(frame.SerializeAsString()));
  }
  /// Small enough for the socket's buffer, one at a time.
  void send_bytes(std::string bytes) {
    auto kept = std::make_shared<std::string>(std::move(bytes));
    boost::asio::co_spawn(
        context_, stream_->write(*kept),
        [self = shared_from_this(), kept](const std::exception_ptr&, const Result<void>&) {});
  }
  void read_no_more() { reading_ = false; }
  void close() { stream_->close(); }

  bool connected = false;
  std::optional<Error> error;
  std::string error_text;
  std::vector<protocol::ControllerFrame> received;

 private:
  boost::asio::awaitable<void> run() {
    auto shaking = stream_->connect_handshake();
    const auto shaken = co_await std::move(shaking);
    if (!shaken) {
      fail(shaken.error());
      co_return;
    }
    connected = true;
    protocol::FrameReader reader(protocol::kFrameBytesMax);
    std::array<char, 4096> buffer{};
    while (reading_) {
      auto reading = stream_->read_some(buffer);
      const auto count = co_await std::move(reading);
      if (!count) {
        fail(count.error());
        co_return;
      }
      reader.feed(std::string_view(buffer.data(), *count));
      for (auto message = reader.next(); message && *message; message = reader.next()) {
        received.emplace_back().ParseFromString(**message);
      }
    }
  }
  void fail(const Error& e) {
    error = e;
    error_text = e.text();
  }

  boost::asio::io_context& context_;
  boost::asio::ssl::context tls_;
  ControlSocket<boost::asio::ip::tcp> socket_;
  std::shared_ptr<TlsStream> stream_;
  std::uint64_t number_ = 0;
  bool reading_ = true;
};

/// A stranger without TLS.
class RawDialer {
 public:
  /// `from`: another address of loopback.
  RawDialer(boost::asio::io_context& context, std::uint16_t port,
            const std::string& from = "127.0.0.1")
      : socket_(context, {boost::asio::ip::make_address(from), 0}) {
    socket_.connect(loopback(port));
  }
  void send(const std::string& bytes) {
    socket_.non_blocking(true);
    boost::system::error_code ignored;
    socket_.write_some(boost::asio::buffer(bytes), ignored);
  }

 private:
  boost::asio::ip::tcp::socket socket_;
};

}  // namespace dlaunch::rendezvous
