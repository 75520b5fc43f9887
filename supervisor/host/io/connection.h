// The agent's connection to its controller: dialled again and again until the agent leaves, and led
// through the agent of another host while its own path is cut.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/bootstrap.h"
#include "rendezvous/io/byte_stream.h"
#include "supervisor/host/control_path.h"
#include "supervisor/host/io/dial.h"
#include "supervisor/host/io/outbox.h"

namespace dlaunch::supervisor::host {

/// Shared by its coroutines; lives on the io_context's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Handlers {
    std::function<void(const std::string& address)> dialing;
    /// `relayed_by`: the host whose agent passes the bytes on; empty: none.
    std::function<void(const std::string& relayed_by, bool over_ssh)> up;
    std::function<void(const std::string& reason)> down;
    std::function<void(protocol::ControllerFrame)> frame;
  };
  Connection(boost::asio::io_context& context, const protocol::Bootstrap& bootstrap,
             Handlers handlers);

  void start();
  /// Waits in the outbox while there is a connection; without one it is dropped. A controller that
  /// does not read it loses the connection: the welcome of the next one repeats what matters.
  void send(protocol::AgentFrame frame);
  /// Ends the present connection; the next is dialled.
  void reconnect(const std::string& reason);
  /// Sends what waits until the controller has acknowledged it or closed, at most `limit` long;
  /// then calls `done`.
  void finish(nanoseconds limit, std::function<void()> done);
  /// Our own address of the newest direct connection; empty: never connected.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }

  /// What the welcome says of this path and of proofs between agents.
  void set_path(nanoseconds heartbeat, nanoseconds lost_after, std::string peer_key);
  /// Who may pass our bytes on; those without a relay port do not.
  void set_peers(const protocol::Peers& peers);
  /// This process did not run for a while: nothing could be heard.
  void stalled();
  /// Where the present connection leads, if it is direct and not silent.
  [[nodiscard]] std::optional<protocol::ControllerAddress> direct_way() const;

 private:
  using Stream = std::shared_ptr<rendezvous::ByteStream>;
  struct Offer {
    Offer(Stream open, std::string by) : stream(std::move(open)), relayed_by(std::move(by)) {}
    Stream stream;
    std::string relayed_by;
    bool over_ssh = false;
  };
  boost::asio::awaitable<void> run();
  boost::asio::awaitable<std::optional<Offer>> next_stream();
  boost::asio::awaitable<std::string> read_frames(Stream stream);
  boost::asio::awaitable<void> write_frames(Stream stream);
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<void> wait_to_look(Instant due);
  boost::asio::awaitable<void> search();
  /// nullopt: none is offered, or it leads nowhere.
  boost::asio::awaitable<std::optional<Offer>> through_tunnel(std::shared_ptr<Dial> dial);
  /// False: none is offered.
  boost::asio::awaitable<bool> look_for_tunnel(std::string reason);
  boost::asio::awaitable<void> look_for_direct(std::string reason);
  /// When another way is to be looked for; nullopt: there is nothing to look for.
  [[nodiscard]] std::optional<Instant> cut_at() const;
  [[nodiscard]] bool is_cut() const;
  /// `run` goes on with it.
  void take(Offer offer, std::string reason);
  void on_closed();

  boost::asio::io_context& context_;
  protocol::Bootstrap bootstrap_;
  Handlers handlers_;
  boost::asio::ssl::context tls_;
  boost::asio::steady_timer wake_;
  boost::asio::steady_timer pause_;  ///< of `run`, between two attempts
  boost::asio::steady_timer look_;   ///< of `watch`
  Rng rng_;
  Outbox outbox_;
  Stream stream_;
  std::string relayed_by_;  ///< of stream_
  bool over_ssh_ = false;   ///< of stream_
  std::size_t next_ = 0;    ///< of the controller's addresses
  std::shared_ptr<Dial> dial_;
  std::optional<Offer> offer_;
  std::string local_address_;
  std::string close_reason_;
  std::uint64_t received_ = 0;
  bool stopped_ = false;
  std::function<void()> finished_;

  ControlPath path_;
  std::string peer_key_;
  std::vector<protocol::Peer> relays_;
  nanoseconds lost_after_{};
  Instant search_due_;  ///< not before: a search has just ended
  Instant tunnel_due_;  ///< while relayed: when it is looked for a tunnel
  Instant direct_due_;  ///< while relayed: when the direct way is tried again
  nanoseconds direct_pause_;
  std::size_t direct_next_ = 0;
  std::optional<Instant> down_since_;
  Instant opened_at_;
};

}  // namespace dlaunch::supervisor::host
