#include "launcher/controller/io/control_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/io/must_not_throw.h"
#include "base/time.h"
#include "launcher/controller/io/control_socket.h"

namespace dlaunch::launcher::controller {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
constexpr auto kAcceptPause = 100ms;
// A client that takes nothing for this long while it is told to go is let go of.
constexpr auto kFinishLimit = 2s;

bool same_user(int socket) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
         (peer.uid == ::getuid() || peer.uid == 0);
}

}  // namespace

class ControlServer::Impl : public std::enable_shared_from_this<ControlServer::Impl> {
 public:
  Impl(asio::io_context& context, Handlers handlers)
      : context_(context), handlers_(std::move(handlers)), acceptor_(context) {}

  Result<void> listen(const std::string& directory) {
    const auto opened = open_state_directory(directory);
    if (!opened) return tl::unexpected(opened.error());
    const auto path = control_socket_path(*opened);
    ::unlink(path.c_str());
    error_code code;
    acceptor_.open(stream_protocol(), code);
    if (!code) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!code) acceptor_.bind(stream_protocol::endpoint(path), code);
    if (!code && ::chmod(path.c_str(), 0600) != 0) code.assign(errno, code.category());
    if (!code) acceptor_.listen(static_cast<int>(kClientsMax), code);
    if (code) {
      return failure(std::error_code(code), "listening on " + directory + "/control.sock");
    }
    auto keep = [self = shared_from_this()](const std::exception_ptr& problem) {
      must_not_throw(problem);
    };
    asio::co_spawn(context_, accept_all(), std::move(keep));
    return {};
  }

  void send(ClientId id, std::string line) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    auto& client = *found->second;
    if (client.finishing) return;
    line.push_back('\n');
    if (client.waiting > 0 && client.waiting + line.size() > kQueueBytesMax) {
      client.queue.clear();
      client.waiting = 0;
      client.finishing = true;
      line = nlohmann::json{{"type", "dropped"},
                            {"error", "this client reads too slowly; it was dropped"}}
                 .dump() +
             "\n";
    }
    client.waiting += line.size();
    client.queue.push_back(std::move(line));
    client.wake.cancel();
    if (client.finishing) limit(found->second);
  }

  [[nodiscard]] std::size_t waiting(ClientId id) const {
    const auto found = clients_.find(id);
    return found == clients_.end() ? 0 : found->second->waiting;
  }

  void finish(ClientId id) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    found->second->finishing = true;
    found->second->wake.cancel();
    limit(found->second);
  }

  void stop(const std::set<ClientId>& except) {
    stopped_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    std::vector<ClientId> ids;
    for (const auto& [id, client] : clients_) {
      if (!except.contains(id)) ids.push_back(id);
    }
    for (const auto id : ids) finish(id);
  }
  void abandon() {
    stop({});
    abandoned_ = true;
    const auto clients = std::exchange(clients_, {});
    for (const auto& [id, client] : clients) client->close();
  }
  [[nodiscard]] bool idle() const { return clients_.empty(); }

 private:
  struct Client {
    Client(ClientId number, stream_protocol::socket connection)
        : id(number),
          socket(std::move(connection)),
          wake(socket.get_executor(), asio::steady_timer::time_point::max()),
          due(socket.get_executor()) {}
    void close() {
      error_code ignored;
      socket.close(ignored);
      wake.cancel();
      due.cancel();
    }
    ClientId id;
    stream_protocol::socket socket;
    asio::steady_timer wake;
    asio::steady_timer due;
    std::deque<std::string> queue;
    std::size_t waiting = 0;
    std::string input;
    bool finishing = false;
  };
  using ClientPointer = std::shared_ptr<Client>;

  asio::awaitable<void> accept_all() {
    while (!stopped_) {
      auto accepting = acceptor_.async_accept(kToken);
      auto [code, socket] = co_await std::move(accepting);
      if (stopped_) co_return;
      if (code) {
        asio::steady_timer pause(context_, kAcceptPause);
        auto waiting = pause.async_wait(kToken);
        co_await std::move(waiting);
        continue;
      }
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      if (!same_user(socket.native_handle()) || clients_.size() >= kClientsMax) continue;
      auto client = std::make_shared<Client>(++last_client_, std::move(socket));
      clients_.emplace(client->id, client);
      auto keep = [self = shared_from_this()](const std::exception_ptr& problem) {
        must_not_throw(problem);
      };
      asio::co_spawn(context_, read_lines(client), keep);
      asio::co_spawn(context_, write_lines(client), keep);
    }
  }

  asio::awaitable<void> read_lines(ClientPointer client) {
    std::array<char, 4096> bytes{};
    while (true) {
      const auto buffer = asio::buffer(bytes);
      auto reading = client->socket.async_read_some(buffer, kToken);
      const auto [code, count] = co_await std::move(reading);
      if (code) break;
      client->input.append(bytes.data(), count);
      take_lines(*client);
      if (client->input.size() > kRequestBytesMax) {
        send(client->id, R"({"error":"a request is one line of at most 64 KiB"})");
        finish(client->id);
        client->input.clear();
      }
    }
    remove(client);
  }

  void take_lines(Client& client) {
    for (auto end = client.input.find('\n'); end != std::string::npos;
         end = client.input.find('\n')) {
      auto line = client.input.substr(0, end);
      client.input.erase(0, end + 1);
      if (abandoned_ || client.finishing) return;
      handlers_.request(client.id, std::move(line));
    }
  }

  asio::awaitable<void> write_lines(ClientPointer client) {
    while (client->socket.is_open()) {
      if (client->queue.empty()) {
        if (client->finishing) break;
        auto waiting = client->wake.async_wait(kToken);
        co_await std::move(waiting);
        continue;
      }
      const auto line = std::move(client->queue.front());
      client->queue.pop_front();
      const auto buffer = asio::buffer(line);
      auto writing = asio::async_write(client->socket, buffer, kToken);
      const auto [code, count] = co_await std::move(writing);
      if (code) break;
      client->waiting -= std::min(client->waiting, line.size());
      if (client->queue.empty() && !client->finishing && !abandoned_) {
        handlers_.drained(client->id);
      }
    }
    remove(client);
  }

  void limit(const ClientPointer& client) {
    client->due.expires_after(kFinishLimit);
    client->due.async_wait([self = shared_from_this(), client](const error_code& code) {
      if (!code) self->remove(client);
    });
  }

  void remove(const ClientPointer& client) {
    client->close();
    if (clients_.erase(client->id) > 0 && !abandoned_) handlers_.gone(client->id);
  }

  asio::io_context& context_;
  Handlers handlers_;
  stream_protocol::acceptor acceptor_;
  ClientId last_client_ = 0;
  std::map<ClientId, ClientPointer> clients_;
  bool stopped_ = false;
  bool abandoned_ = false;
};

ControlServer::ControlServer(asio::io_context& context, Handlers handlers)
    : impl_(std::make_shared<Impl>(context, std::move(handlers))) {}
ControlServer::~ControlServer() { impl_->abandon(); }

Result<void> ControlServer::listen(const std::string& directory) {
  return impl_->listen(directory);
}
void ControlServer::send(ClientId client, std::string line) {
  impl_->send(client, std::move(line));
}
std::size_t ControlServer::waiting(ClientId client) const { return impl_->waiting(client); }
void ControlServer::finish(ClientId client) { impl_->finish(client); }
void ControlServer::stop(const std::set<ClientId>& except) { impl_->stop(except); }
bool ControlServer::idle() const { return impl_->idle(); }

}  // namespace dlaunch::launcher::controller
