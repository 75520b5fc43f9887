// A simulated host: the real agent machine, its workers, its clock and its network.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/rng.h"
#include "protocol/agent_wire.pb.h"
#include "simulation/connection.h"
#include "simulation/event_queue.h"
#include "simulation/gang.h"
#include "simulation/host_clock.h"
#include "simulation/probe_hands.h"
#include "simulation/surroundings.h"
#include "simulation/ways.h"
#include "supervisor/host/agent.h"

namespace dlaunch::simulation {

/// Carries out the agent's commands as `supervisor/host/io` does, with simulated hands.
class Host {
 public:
  struct Setting {
    HostId id;
    std::string job;
    std::uint32_t workers = 1;
    bool program = false;       ///< its workers know nothing of dlaunch
    bool single_beats = false;  ///< every heartbeat is sent, none is credited
    nanoseconds heartbeat = 100ms;
    nanoseconds link_delay_min = 50us, link_delay_max = 2ms;
    bool data_paths = true;  ///< agents probe each other
  };
  Host(Setting setting, EventQueue& queue, std::uint64_t seed, Surroundings& world);

  // ---- what happens to it
  /// A holder and an agent are planted; older ones are made to leave before.
  void plant();
  /// kill -9 of the agent alone: workers die with it, the holder starts another.
  void kill_agent();
  /// SIGSTOP: the agent does not run, its workers do.
  void freeze_agent();
  void thaw_agent();
  /// Power loss: nothing is said to anybody; `reboot` brings an empty host with a new boot id.
  void crash();
  void reboot();
  void kill_worker(Rank rank, const supervisor::host::WorkerEnded& how);
  void hang_worker(Rank rank);
  /// Workers that are killed until then sleep in the kernel.
  void hold_workers(Instant until) { undead_until_ = until; }
  void data_link(bool up);
  void drift(std::int64_t parts_per_million) { clock_.drift(queue_.now(), parts_per_million); }
  /// Its data network: nothing passes to or from any other host while there is a cut.
  void cut_data(bool cut);
  void wake_probes() {
    if (probes_) probes_->wake();
  }
  /// At its data address, by this life of its agent; 0: nobody answers there.
  [[nodiscard]] std::uint32_t probe_port() const;
  [[nodiscard]] bool is_on_data_network() const { return up_ && data_cuts_ == 0; }
  /// The connection breaks; the agent dials again at once.
  void reset_connection();

  // ---- its network
  [[nodiscard]] Line& line() { return line_; }
  /// Others' connections to the login host are refused, those that stand stay (a firewall).
  void block_dialling(bool blocked) { dialling_blocked_ += blocked ? 1 : -1; }
  /// `plant` is at the end of an SSH connection and passes on what the agent says to it.
  void offer_tunnel(TunnelOffer offer) { offer_ = std::move(offer); }
  void withdraw_tunnel() { offer_.reset(); }
  [[nodiscard]] bool is_over_ssh() const { return connection_ && connection_->over_ssh(); }
  /// Through whose agent it is heard.
  [[nodiscard]] std::optional<HostId> relay() const {
    return connection_ ? connection_->relay() : std::nullopt;
  }
  void lose_tunnel();
  /// `plant` gives up: what it has started ends.
  void uproot();

  void worker_says(Rank rank, Generation generation, Deed deed, const Progress& progress,
                   nanoseconds step_time);
  /// `heard`: by the controller that this connection leads to.
  /// `acknowledged`: the number of the last frame of ours that it had when it said this.
  void frame_from_controller(const std::shared_ptr<Connection>& connection, std::uint64_t number,
                             std::uint64_t acknowledged,
                             const std::shared_ptr<const protocol::ControllerFrame>& frame);
  /// The controller closed the connection, or is gone.
  void connection_lost(const std::shared_ptr<Connection>& connection, const std::string& reason);
  /// The controller counts on this host's heartbeats without hearing them.
  void credit();
  void end_credit();
  /// Nobody will read what it says for a while: it beats into the void no more, its lease runs on.
  void mute();
  void end_mute();

  struct Worker {
    Generation generation;
    std::uint32_t pid = 0;
    Gang* gang = nullptr;
  };
  [[nodiscard]] const std::map<Rank, Worker>& workers() const { return workers_; }
  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] bool is_planted() const { return planted_; }
  [[nodiscard]] bool has_agent() const { return agent_ != nullptr; }
  [[nodiscard]] bool is_frozen() const { return frozen_since_.has_value(); }
  [[nodiscard]] bool is_welcomed() const { return received_ > 0; }
  [[nodiscard]] HostId id() const { return setting_.id; }
  [[nodiscard]] const std::shared_ptr<Connection>& connection() const { return connection_; }
  [[nodiscard]] Generation newest_seen() const { return newest_seen_; }

 private:
  void start_agent();
  /// Whatever way its process ends.
  void end_agent();
  void feed(supervisor::host::Event event);
  void run();
  void later(nanoseconds delay, supervisor::host::Event event);
  void arm();
  void dial(nanoseconds wait);
  void dial_after(nanoseconds pause, nanoseconds wait);
  void connect(nanoseconds wait);
  void end_workers();
  void close_connection();

  // ---- other ways
  void when_alive(nanoseconds delay, std::function<void()> action);
  [[nodiscard]] std::optional<Instant> cut_at() const;
  [[nodiscard]] bool is_cut() const;
  void watch();
  void look();
  void end_look();
  void search();
  void ask(std::size_t first, std::size_t asked);
  void relayed(HostId id, Station* station, const std::function<void()>& next);
  void asked_to_relay(std::function<void(Station*)> answer);
  void answer_waiting(std::optional<std::uint64_t> number, bool spoke);
  void end_relaying(bool said);
  void look_for_direct(std::string reason);
  bool take_tunnel(const std::string& reason);
  void take(std::shared_ptr<Connection> connection, const std::string& reason);
  void note_closed(const Connection& closed);
  [[nodiscard]] std::uint32_t relay_port() const;

  void beat();
  void program_does(Rank rank, Generation generation, Deed deed, std::uint64_t step);
  [[nodiscard]] bool is_outdated(const supervisor::host::Event& event);
  void note_order(const protocol::ControllerFrame& frame);
  [[nodiscard]] Instant own_now() const { return clock_.own(queue_.now()); }

  void perform(supervisor::host::Send& c);
  void perform(supervisor::host::Reconnect& c);
  void perform(supervisor::host::StartWorker& c);
  void perform(supervisor::host::TellWorker& c);
  void perform(supervisor::host::AskWorkersToEnd& c);
  void perform(supervisor::host::KillAll& c);
  void perform(supervisor::host::PickPort& c);
  void perform(supervisor::host::CheckSelf& c);
  void perform(supervisor::host::CommitCheckpoint& c);
  void perform(supervisor::host::InspectCheckpoints& c);
  void perform(supervisor::host::FindMark& c);
  void perform(supervisor::host::Exit& c);
  void perform(supervisor::host::KnowPeers& c);
  void perform(supervisor::host::KeepLogs&) {}
  void perform(supervisor::host::NoteWritten&) {}
  void perform(supervisor::host::Note&) {}

  Setting setting_;
  EventQueue& queue_;
  Rng rng_;
  Surroundings& world_;
  HostClock clock_;
  Line line_;
  std::shared_ptr<Connection> connection_;
  std::uint64_t connections_ = 0;
  int dialling_blocked_ = 0;
  Ways ways_;  ///< of this life of the agent
  std::optional<TunnelOffer> offer_;
  bool up_ = true;
  bool planted_ = false;  ///< a holder is there that starts an agent anew
  std::uint64_t boots_ = 1;
  std::uint64_t agents_ = 0;  ///< counts lives of the agent; what an older one ordered is void
  std::uint64_t sweeps_ = 0;
  std::uint32_t pids_ = 1000;
  std::uint64_t received_ = 0;
  bool credited_ = false;
  std::shared_ptr<Connection> muted_;  ///< the connection on which it is
  Instant muted_at_{};                 ///< by its own clock
  Generation newest_seen_;
  std::uint64_t newest_incarnation_ = 0;  ///< that this agent has heard
  Instant undead_until_{};
  std::uint32_t data_cuts_ = 0;
  std::optional<Instant> armed_;
  std::optional<Instant> frozen_since_;
  bool running_ = false;
  std::deque<supervisor::host::Event> inbox_;
  ListReader::Frame obeyed_;  ///< the newest that its agent was given
  std::unique_ptr<supervisor::host::Agent> agent_;
  std::shared_ptr<ProbeHands> probes_;  ///< of this life of the agent
  std::map<Rank, Worker> workers_;
};

}  // namespace dlaunch::simulation
