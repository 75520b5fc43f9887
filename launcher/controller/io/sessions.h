// What clients of the control socket ask for, and what they are told (docs/protocol.md).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "launcher/controller/event.h"
#include "launcher/controller/io/control_server.h"
#include "launcher/controller/io/event_log.h"
#include "launcher/controller/output_tail.h"
#include "launcher/controller/status_json.h"

namespace dlaunch::launcher::controller {

/// Lives on the controller's thread.
class Sessions {
 public:
  using OlderEvents = std::function<void(std::vector<EventRow>)>;
  struct Hands {
    std::function<nlohmann::json()> status;
    /// The `state` message; cheap, for those who ask often.
    std::function<nlohmann::json()> summary;
    std::function<void(Event)> put;
    /// Why a host cannot be taken out now; empty: it can.
    std::function<std::string(HostId)> why_not_drain;
    /// Events of run.db after an id; `done` is called later, on the controller's thread.
    std::function<void(std::uint64_t after, std::size_t rows_max, OlderEvents done)> older_events;
  };
  // What a follower of output may be behind; then it is dropped.
  static constexpr std::size_t kBehindBytesMax = ControlServer::kQueueBytesMax;
  /// `events` and `output` outlive it.
  Sessions(boost::asio::io_context& context, const JobIdentity& job, const EventLog& events,
           const OutputTail& output, Hands hands);

  [[nodiscard]] Result<void> listen(const std::string& directory);
  /// A new event is in the log.
  void on_event();
  void on_output(const OutputPiece& piece);
  /// Said before anybody can watch: to the first who does. Empty: nothing.
  void greet(const std::string& sentence) { greeting_ = sentence; }
  /// To everybody who watches.
  void tell(const nlohmann::json& message);
  /// The last word: followers get the rest, watchers the end; then all are let go.
  void end(int code, const std::string& sentence);
  [[nodiscard]] bool idle() const { return server_.idle(); }

 private:
  struct FollowsEvents {
    std::uint64_t last_id = 0;
    bool follow = false;
    bool reading = false;  ///< older ones come from the disk
  };
  struct FollowsOutput {
    std::optional<Rank> rank;
    std::optional<HostId> host;
    std::optional<Generation> generation;  ///< nullopt: `first` and what comes after it
    Generation first;
    bool follow = false;
    std::deque<OutputPiece> waiting;  ///< not handed to the server yet
    std::size_t behind = 0;           ///< bytes of them that came after the request
    [[nodiscard]] bool wants(const OutputChunk& chunk) const;
  };
  struct Watches {
    bool attached = false;  ///< the job ends with this client
  };
  using Session = std::variant<FollowsEvents, FollowsOutput, Watches>;

  void on_request(ClientId client, const std::string& line);
  void on_gone(ClientId client);
  /// As much as fits; more when the client has taken it.
  void pump(ClientId client);
  void pump(ClientId client, FollowsEvents& session);
  void pump(ClientId client, FollowsOutput& session);
  void pump(ClientId, Watches&) {}
  void on_older_events(ClientId client, const std::vector<EventRow>& events);
  void finish(ClientId client);
  [[nodiscard]] nlohmann::json act(const nlohmann::json& request, const std::string& kind);
  void start_events(ClientId client, const nlohmann::json& request);
  void start_logs(ClientId client, const nlohmann::json& request);
  void start_watch(ClientId client, const nlohmann::json& request);
  void send(ClientId client, const nlohmann::json& message);
  [[nodiscard]] std::optional<HostId> host_named(const std::string& name) const;

  const JobIdentity& job_;
  const EventLog& events_;
  const OutputTail& output_;
  Hands hands_;
  std::string greeting_;
  std::map<ClientId, Session> sessions_;
  bool over_ = false;
  ControlServer server_;
};

}  // namespace dlaunch::launcher::controller
