// The inside of the agent machine. Included by agent*.cpp only.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/endpoints.h"
#include "supervisor/host/agent.h"
#include "supervisor/host/environment.h"
#include "supervisor/host/evidence_book.h"

namespace dlaunch::supervisor::host {

// Reports of a checkpoint wait for another connection; those that are older are superseded.
constexpr std::size_t kReportsKept = 4;

template <class Report>
void keep_newest(std::deque<Report>& kept, const Report& report) {
  kept.push_back(report);
  if (kept.size() > kReportsKept) kept.pop_front();
}

/// A worker process of the present generation, alive or ended.
struct Worker {
  std::uint32_t local_rank = 0;
  std::uint32_t pid = 0;
  bool alive = true;
  bool finished = false;
  bool ended_well = false;
  Instant started_at;
  Instant progressed_at;
  protocol::WorkerStatus status;
  std::optional<protocol::worker::Ready> endpoint;
  bool connected = false;
  std::optional<std::uint64_t> restored;
  std::deque<protocol::Written> written;  ///< the newest, for a connection that loses them
};

class Agent::Impl {
 public:
  Impl(Identity identity, Instant now, protocol::EndpointReader reader);
  std::vector<Command> step(Instant now, const Event& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  // ---- what the host does for the generation; only become_* assigns state_
  struct Idle {};                           ///< no worker
  struct Clearing {                         ///< AllGone or Undead
    std::optional<protocol::Prepare> next;  ///< to be begun afterwards
  };
  struct Starting {};  ///< workers come up, or a port is picked
  struct Ready {};     ///< Prepared was sent; Assign comes
  struct Joining {};   ///< assigned
  struct Training {};  ///< Go has come
  struct Leaving {     ///< AllGone, then the end
    std::string reason;
  };
  using State = std::variant<Idle, Clearing, Starting, Ready, Joining, Training, Leaving>;

  void become_clearing(std::optional<protocol::Prepare> next);
  void become_starting(Instant now, const protocol::Prepare& prepare);
  void become_ready(protocol::Prepared prepared);
  void become_joining(Instant now, const protocol::Assign& order);
  void become_leaving(const std::string& reason);

  // ---- events
  void on(Instant now, const ConnectionUp& e);
  void on(Instant now, const ConnectionDown& e);
  void on(Instant now, const FromController& e);
  void on(Instant now, const WorkerSaid& e);
  void on(Instant now, const WorkerStarted& e);
  void on(Instant now, const WorkerNotStarted& e);
  void on(Instant now, const WorkerEnded& e);
  void on(Instant now, const ProgramStep& e);
  void on(Instant now, const OutputLines& e);
  void on(Instant now, const AllGone&);
  void on(Instant now, const Undead& e);
  void on(Instant now, const PortPicked& e);
  void on(Instant now, const SelfChecked& e);
  void on(Instant now, const CommitDone& e);
  void on(Instant now, const Inspected& e);
  void on(Instant now, const MarkLooked& e);
  void on(Instant now, const ProcessStateSeen& e);
  void on(Instant now, const LinkSeen& e);
  void on(Instant now, const PathsSeen& e);
  void on(Instant now, const Stalled& e);
  void on(Instant now, const QuietUntil& e);
  void on(Instant now, const LeaveAsked& e);
  void on(Instant now, const DeadlineDue&);

  // ---- orders
  [[nodiscard]] bool is_obeyed(Instant now, const protocol::ControllerFrame& frame);
  void obey(Instant now, const protocol::Welcome& order);
  void obey(Instant now, const protocol::Prepare& order);
  void obey(Instant now, const protocol::Assign& order);
  void obey(Instant now, const protocol::Go& order);
  void obey(Instant now, const protocol::Abort& order);
  void obey(Instant now, const protocol::StopWorkers& order);
  void obey(const protocol::CheckpointAt& order);

  // ---- lines of workers
  void hear(Instant now, Worker& worker, const protocol::worker::Ready& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Parked& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Connected& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Restored& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Progress& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Written& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Failing& line);
  void hear(Instant now, Worker& worker, const protocol::worker::Finished& line);
  void hear(Instant, Worker&, const protocol::worker::Hello&) {}

  [[nodiscard]] protocol::HostPhase phase() const;
  [[nodiscard]] Worker* find(Rank rank, Generation generation);
  [[nodiscard]] Place place_of(Rank rank, std::uint32_t local_rank) const;
  void start_workers(Instant now, const protocol::Listening* master);
  void say_prepared();
  void tell_all(const protocol::AgentMessage::Body& body);
  [[nodiscard]] bool has_joined() const;
  void say_connected();
  void say_restored();
  void note_written();
  void repeat_checkpoints();
  void repeat_links(Instant now);
  void beat(Instant now);
  /// A heartbeat out of turn.
  void tell_workers(Instant now);
  void send(protocol::AgentFrame frame, Generation about);
  void send(protocol::AgentFrame frame) { send(std::move(frame), generation_); }
  void testify(Instant now, Generation about, protocol::Evidence evidence);
  void send_gone();
  void on_lease_end(Instant now);
  void leave_now();

  Identity identity_;
  State state_ = Idle{};
  bool connected_ = false;
  bool welcomed_ = false;
  std::uint64_t incarnation_ = 0;  ///< highest seen
  Generation generation_;          ///< newest ordered
  protocol::JobSpec job_;
  std::optional<protocol::Ready> self_;  ///< what the self-checks found
  std::string data_interface_;
  nanoseconds lease_;
  bool stop_on_lease_end_;
  nanoseconds heartbeat_ = 100ms;
  nanoseconds lost_after_ = 600ms;
  Instant lease_due_;
  std::optional<Instant> beat_due_;
  std::optional<Instant> parting_due_;  ///< the lease is over, its workers are asked to end
  std::optional<Instant> kill_due_;     ///< end of the grace of StopWorkers
  // What was ordered and obeyed in this generation.
  bool aborted_ = false;         ///< nothing of this generation is begun any more
  bool stop_told_ = false;       ///< the trainer writes a checkpoint and ends
  bool stop_signalled_ = false;  ///< SIGTERM was sent, SIGKILL follows
  protocol::Prepare prepare_;
  std::optional<protocol::Prepared> prepared_;
  protocol::EndpointReader reader_;
  protocol::SharedEndpoints assigned_;  ///< of the newest Assign
  std::map<Rank, Worker> workers_;
  EvidenceBook evidence_;
  std::deque<protocol::Committed> committed_;  ///< of this generation, the newest
  struct Link {
    bool up = true;
    Instant since;
  };
  std::map<std::string, Link> links_;  ///< by interface
  std::vector<Command> out_;
};

}  // namespace dlaunch::supervisor::host
