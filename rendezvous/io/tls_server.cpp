#include "rendezvous/io/tls_server.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <list>
#include <map>
#include <utility>

#include "base/io/clock.h"
#include "base/io/must_not_throw.h"
#include "protocol/limits.h"
#include "rendezvous/admission.h"
#include "rendezvous/io/agent_connection.h"
#include "rendezvous/io/tls_stream.h"

namespace dlaunch::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
// Out of descriptors or memory: the kernel's backlog holds the rest meanwhile.
constexpr auto kAcceptPause = 100ms;
// That wait for a place, beside two of each host, so that half of all is enough for the agents: a
// descriptor and 1 KiB each.
constexpr std::size_t kStrangersWaitingMax = 1024;
// Of an agent under load; 256 handshakes take 0.1 s of a core.
constexpr nanoseconds kPatience = 2s;
// What an agent says first is there with its connection.
constexpr nanoseconds kSilentPatience = 200ms;
constexpr const char* kTurnedOut =
    "others wait for its place: too many connections have not said hello yet, most of them from "
    "where it comes from";
// Thousands of agents dial in the same second; the kernel cuts this to net.core.somaxconn.
constexpr int kBacklog = 4096;

std::string text_of(const tcp::endpoint& endpoint) {
  return endpoint.address().to_string() + " port " + std::to_string(endpoint.port());
}

Result<ControlAcceptor> open_acceptor(asio::io_context& context, const tcp::endpoint& endpoint) {
  ControlAcceptor acceptor(context);
  error_code code;
  acceptor.open(endpoint.protocol(), code);
  if (!code) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  // A restarted controller takes the port of the one before although connections linger.
  if (!code) acceptor.set_option(ControlAcceptor::reuse_address(true), code);
  if (!code && endpoint.protocol() == tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(true), code);
  }
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(kBacklog, code);
  if (code) return failure(std::error_code(code), "listening on " + text_of(endpoint));
  return acceptor;
}

}  // namespace

class TlsServer::Impl : public std::enable_shared_from_this<TlsServer::Impl> {
 public:
  Impl(asio::io_context& context, Setting setting, Handlers handlers)
      : context_(context),
        setting_(std::move(setting)),
        handlers_(std::move(handlers)),
        tls_(asio::ssl::context::tls_server),
        admission_({protocol::kHandshakesPendingMax,
                    kStrangersWaitingMax + std::size_t{2} * setting_.hosts,
                    std::min(kPatience, setting_.hello_limit),
                    std::min(kSilentPatience, setting_.hello_limit)}),
        due_(context),
        newest_(setting_.hosts) {
    use_psk_server(tls_.native_handle(), setting_.job, setting_.secret, setting_.hosts);
  }

  Result<std::uint16_t> listen(const std::vector<std::string>& addresses, PortRange ports,
                               std::uint16_t first) {
    const std::uint32_t count = static_cast<std::uint32_t>(ports.high) - ports.low + 1;
    std::uint32_t offset = first >= ports.low && first <= ports.high ? first - ports.low : 0U;
    Error newest;
    for (std::uint32_t tried = 0; tried < count; ++tried, offset = (offset + 1) % count) {
      const auto port = static_cast<std::uint16_t>(ports.low + offset);
      auto opened = open_all(addresses, port);
      if (opened) {
        for (auto& acceptor : *opened) start_accepting(std::move(acceptor));
        return port;
      }
      newest = opened.error();
      if (newest.code != std::errc::address_in_use) break;  // the next port would not help
    }
    return tl::unexpected(newest);
  }

  void send(const std::vector<HostId>& hosts, const protocol::ControllerFrame& frame) {
    const auto outgoing = make_outgoing(frame);
    const bool is_beat = frame.has_beat();
    for (const auto host : hosts) {
      const auto connection = newest_of(host).connection;  // close may erase it
      if (!connection) continue;
      if (is_beat) {
        connection->beat(outgoing);
      } else {
        connection->send(outgoing);
      }
    }
  }

  void close(HostId host, const std::string& reason) {
    const auto connection = newest_of(host).connection;
    if (connection) connection->close(reason);
  }

  void stop() {
    stopped_ = true;
    for (auto& acceptor : acceptors_) {
      error_code ignored;
      acceptor.close(ignored);
    }
    due_.cancel();
    newest_.assign(newest_.size(), Newest());
    const auto connections = std::exchange(connections_, {});
    for (const auto& [number, entry] : connections) {
      if (entry.hello_due) entry.hello_due->cancel();
      if (entry.connection) entry.connection->close("the controller ends");
    }
  }

 private:
  struct Entry {
    std::optional<ControlSocket<tcp>> waiting;      ///< for a place
    std::shared_ptr<AgentConnection> connection;    ///< once it has one
    std::shared_ptr<asio::steady_timer> hello_due;  ///< empty: has said hello, or waits
    HostId host;
    std::string from;
  };

  struct Newest {
    std::uint64_t number = 0;
    std::shared_ptr<AgentConnection> connection;  ///< empty: none
  };
  /// Hosts without a key have no connection.
  [[nodiscard]] Newest newest_of(HostId host) const {
    return host.value < newest_.size() ? newest_[host.value] : Newest();
  }

  Result<std::vector<ControlAcceptor>> open_all(const std::vector<std::string>& addresses,
                                                std::uint16_t port) {
    std::vector<ControlAcceptor> opened;
    for (const auto& text : addresses) {
      error_code code;
      const auto address = asio::ip::make_address(text, code);
      if (code) return failure(std::error_code(code), "listening on " + text);
      auto acceptor = open_acceptor(context_, tcp::endpoint(address, port));
      if (!acceptor) return tl::unexpected(acceptor.error());
      opened.push_back(std::move(*acceptor));
    }
    return opened;
  }

  void start_accepting(ControlAcceptor acceptor) {
    acceptors_.push_back(std::move(acceptor));
    auto keep = [self = shared_from_this()](const std::exception_ptr& problem) {
      must_not_throw(problem);
    };
    asio::co_spawn(context_, accept_all(&acceptors_.back()), std::move(keep));
  }

  asio::awaitable<void> accept_all(ControlAcceptor* acceptor) {
    while (!stopped_) {
      tcp::endpoint from;
      auto accepting = acceptor->async_accept(from, kToken);
      auto [code, socket] = co_await std::move(accepting);
      if (stopped_) co_return;
      if (code) {
        asio::steady_timer pause(context_, kAcceptPause);
        auto waiting = pause.async_wait(kToken);
        co_await std::move(waiting);
        continue;
      }
      const auto number = ++last_connection_;
      auto& entry = connections_[number];
      entry.waiting.emplace(std::move(socket));
      entry.from = text_of(from);
      rule(admission_.arrived(monotonic_now(), source_of(from.address().to_string()), number));
    }
  }

  void rule(const Admission::Ruling& ruling) {
    for (const auto number : ruling.turned_out) {
      const auto connection = connections_.at(number).connection;
      if (connection) {
        connection->close(kTurnedOut);
      } else {
        on_closed(number, kTurnedOut);
      }
    }
    for (const auto number : ruling.admitted) begin(number);
    const auto deadline = admission_.next_deadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    due_.cancel();
    if (!deadline) return;
    due_.expires_at(*deadline);
    due_.async_wait([self = shared_from_this()](const error_code& code) {
      if (code || self->stopped_) return;
      self->armed_.reset();
      self->rule(self->admission_.due(monotonic_now()));
    });
  }

  /// It has a place: the handshake.
  void begin(std::uint64_t number) {
    // An entry lives until its connection is closed, and no frame comes after that.
    auto* entry = &connections_.at(number);
    prepare_control_socket(*entry->waiting);
    auto stream = std::make_shared<TlsStream>(std::move(*entry->waiting), tls_);
    entry->waiting.reset();
    auto self = shared_from_this();
    AgentConnection::Handlers handlers;
    handlers.frame = [self, number, entry](protocol::AgentFrame&& frame,
                                           std::optional<Instant> sent_at) {
      self->on_frame(*entry, number, std::move(frame), sent_at);
    };
    handlers.closed = [self, number](std::string reason) { self->on_closed(number, reason); };
    auto connection = std::make_shared<AgentConnection>(context_, stream, std::move(handlers));
    auto due = std::make_shared<asio::steady_timer>(
        context_, std::chrono::duration_cast<asio::steady_timer::duration>(setting_.hello_limit));
    due->async_wait([connection, due](const error_code& code) {
      if (!code) connection->close("it did not say hello in time");
    });
    entry->connection = connection;
    entry->hello_due = due;
    auto keep = [self](const std::exception_ptr& problem) { must_not_throw(problem); };
    asio::co_spawn(context_, shake_hands(number, stream, connection), std::move(keep));
  }

  asio::awaitable<void> shake_hands(std::uint64_t number, std::shared_ptr<TlsStream> stream,
                                    std::shared_ptr<AgentConnection> connection) {
    auto hearing = stream->readable();
    const auto heard = co_await std::move(hearing);
    if (heard) admission_.spoke(number);
    auto shaking = stream->accept_handshake();
    const auto host = co_await std::move(shaking);
    if (!host) {
      connection->close("it has no key of this job (" + host.error().text() + ")");
      co_return;
    }
    const auto found = connections_.find(number);
    if (found == connections_.end()) co_return;  // its time was over
    found->second.host = *host;
    connection->start(*host, setting_.job);
  }

  void on_frame(Entry& entry, std::uint64_t number, protocol::AgentFrame&& frame,
                std::optional<Instant> sent_at) {
    const auto host = entry.host;
    std::shared_ptr<AgentConnection> replaced;
    if (entry.hello_due) {
      entry.hello_due->cancel();
      entry.hello_due.reset();
      rule(admission_.left(monotonic_now(), number));
      auto& newest = newest_.at(host.value);
      replaced = std::exchange(newest.connection, entry.connection);
      newest.number = number;
    }
    handlers_.frame(host, number, sent_at, std::move(frame));
    // After the hello, so that the host is never without a connection in between.
    if (replaced) replaced->close("a newer connection of this host took its place");
  }

  void on_closed(std::uint64_t number, const std::string& reason) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    const auto entry = std::move(found->second);
    connections_.erase(found);
    if (entry.hello_due || entry.waiting) {
      if (entry.hello_due) entry.hello_due->cancel();
      rule(admission_.left(monotonic_now(), number));
      handlers_.refused("a connection from " + entry.from + " was refused: " + reason);
      return;
    }
    auto& newest = newest_.at(entry.host.value);
    if (newest.number == number) newest = Newest();
    handlers_.closed(entry.host, number, reason);
  }

  asio::io_context& context_;
  Setting setting_;
  Handlers handlers_;
  asio::ssl::context tls_;
  std::list<ControlAcceptor> acceptors_;
  Admission admission_;
  asio::steady_timer due_;
  std::optional<Instant> armed_;
  std::uint64_t last_connection_ = 0;
  std::map<std::uint64_t, Entry> connections_;
  std::vector<Newest> newest_;  ///< by host
  bool stopped_ = false;
};

TlsServer::TlsServer(asio::io_context& context, Setting setting, Handlers handlers)
    : impl_(std::make_shared<Impl>(context, std::move(setting), std::move(handlers))) {}
TlsServer::~TlsServer() { impl_->stop(); }

Result<std::uint16_t> TlsServer::listen(const std::vector<std::string>& addresses, PortRange ports,
                                        std::uint16_t first) {
  return impl_->listen(addresses, ports, first);
}
void TlsServer::send(const std::vector<HostId>& hosts, const protocol::ControllerFrame& frame) {
  impl_->send(hosts, frame);
}
void TlsServer::close(HostId host, const std::string& reason) { impl_->close(host, reason); }
void TlsServer::stop() { impl_->stop(); }

}  // namespace dlaunch::rendezvous
