// One controller process on the login host: the real machine, with simulated hands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/dense_map.h"
#include "base/ids.h"
#include "base/rng.h"
#include "launcher/controller/controller.h"
#include "simulation/connection.h"
#include "simulation/event_queue.h"
#include "simulation/host.h"
#include "simulation/storage.h"

namespace dlaunch::simulation {

/// What a station tells the world about; all calls come from within its `feed`.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void said(const Station& station, const std::string& column, std::string text) = 0;
  virtual void recorded(const Station& station, const supervisor::job::Record& record) = 0;
  virtual void incident_changed(const supervisor::job::Incident& incident) = 0;
  virtual void state_became(const Station& station, const supervisor::job::StateBecame& state) = 0;
  virtual void stepped(const Station& station) = 0;
  virtual void ended(const Station& station, int code, const std::string& sentence) = 0;
  virtual void broken(std::string rule) = 0;
};

/// How a dial by SSH goes at present; the same for all hosts.
enum class SshTrouble { none, refused, slow, wrong_key };

/// Lives from its start to its kill; the object stays until the world ends, so that what is on its
/// way to a dead process finds out that it is dead.
class Station {
 public:
  using Hosts = DenseMap<HostId, std::unique_ptr<Host>>;
  struct Parts {
    EventQueue& queue;
    Hosts& hosts;
    RunDb& run_db;
    Watcher& watcher;
    const SshTrouble& ssh;
    bool single_beats = false;
  };
  Station(launcher::controller::Setting setting, std::uint64_t seed, Parts parts);

  void begin() { feed(launcher::controller::Begin{}); }
  /// kill -9: connections are reset, nothing else is said.
  void kill();
  /// Long dead: nothing of its machine is asked any more.
  void bury();
  /// SIGSTOP, or the lid of a laptop: nothing is read until `thaw`.
  void freeze();
  void thaw();
  /// Its login host's network: nothing passes in or out.
  void cut_off();
  void reconnect();
  /// Another process has run.db now.
  void lose_run_db() { has_run_db_ = false; }

  void ask(launcher::controller::Event event) { feed(std::move(event)); }
  void frame_from_host(HostId host, const std::shared_ptr<Connection>& connection,
                       protocol::AgentFrame&& frame);
  void connection_closed(HostId host, const std::shared_ptr<Connection>& connection,
                         const std::string& reason);
  /// Nothing is told of this host's line for a while: its heartbeats come one by one.
  void end_credit(HostId host);
  void end_all_credit();

  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] bool is_frozen() const { return frozen_since_.has_value(); }
  [[nodiscard]] bool answers() const { return alive_ && !ended_ && !frozen_since_ && cuts_ == 0; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] const std::uint32_t& cuts() const { return cuts_; }
  [[nodiscard]] Incarnation incarnation() const { return incarnation_; }
  [[nodiscard]] Generation generation() const { return generation_; }
  [[nodiscard]] supervisor::job::JobState state() const { return state_; }
  [[nodiscard]] const launcher::controller::Controller& machine() const { return *machine_; }

 private:
  struct Session {
    bool begun = false;  ///< its host has been met
    bool loud = false;   ///< connected, and its heartbeats are sent
    bool credited = false;
    Instant loud_until = Instant::min();  ///< at least: something happens to its line
    std::shared_ptr<Connection> connection;
    std::vector<Instant> sent;  ///< by number, those that are not acknowledged yet
    std::uint64_t acknowledged = 0;
    std::uint64_t delivered = 0;
    std::uint64_t heard = 0;  ///< the number of its newest frame
  };

  void feed(launcher::controller::Event event);
  void run();
  void arm();
  void check_deadline();
  void check_journal(const protocol::ControllerFrame& frame);
  void consider_credit(HostId host, Session& session, std::optional<Instant> acknowledged);
  void set_loud(Session& session, bool loud);
  void beats_by_need();

  // ---- planting
  void plant(HostId host, std::uint64_t attempt, nanoseconds within);
  void plant_fails(HostId host, std::uint64_t attempt, launcher::launch::Cause cause,
                   nanoseconds after);
  void plant_arrives(HostId host, std::uint64_t attempt);
  void plant_anew(HostId host, std::uint64_t attempt);
  void offer_tunnel(HostId host, std::uint64_t attempt, nanoseconds length);
  void tunnel_taken(HostId host, std::uint64_t attempt, bool passes);
  void await_welcome(HostId host, std::uint64_t attempt, Instant began, bool offered);
  void report(HostId host, std::uint64_t attempt, const launcher::launch::Event& event, bool last);

  void perform(launcher::controller::SendToHosts& c);
  void perform(launcher::controller::CloseConnection& c);
  void perform(launcher::controller::PlantOrder& c);
  void perform(launcher::controller::FromJob& c);
  void perform(launcher::controller::Say& c);
  void perform(launcher::controller::WorkerOutput&) {}
  void perform(launcher::controller::Superseded& c);
  void perform(launcher::controller::Ended& c);
  void journal(supervisor::job::Journal& entry);

  Incarnation incarnation_;
  nanoseconds heartbeat_;
  EventQueue& queue_;
  Hosts& hosts_;
  RunDb& run_db_;
  Watcher& watcher_;
  const SshTrouble& ssh_;
  bool single_beats_;
  Rng rng_;     ///< of the hands
  Rng jitter_;  ///< of the machine
  bool alive_ = true;
  bool ended_ = false;
  bool has_run_db_ = true;
  bool beating_ = true;
  std::uint32_t cuts_ = 0;
  Generation generation_;
  supervisor::job::JobState state_ = supervisor::job::JobState::starting;
  std::optional<Instant> frozen_since_;
  std::optional<Instant> armed_;
  DenseMap<HostId, Session> sessions_;  ///< of all hosts, so that each stays where it is
  std::size_t loud_ = 0;
  std::set<std::pair<HostId, std::uint64_t>> planting_;
  std::set<std::uint64_t> journaling_;
  bool running_ = false;
  std::deque<launcher::controller::Event> inbox_;
  std::unique_ptr<launcher::controller::Controller> machine_;
};

}  // namespace dlaunch::simulation
