// The inside of the job machine: its states and what they share. Included by job_*.cpp only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/endpoints.h"
#include "supervisor/job/checkpoints.h"
#include "supervisor/job/crash_watch.h"
#include "supervisor/job/hang_finder.h"
#include "supervisor/job/incident_book.h"
#include "supervisor/job/job.h"
#include "supervisor/job/journal_rows.h"
#include "supervisor/job/link_watch.h"
#include "supervisor/job/ranks.h"
#include "supervisor/job/restart_budget.h"
#include "supervisor/job/user_error.h"
#include "supervisor/job/verdict.h"

namespace dlaunch::supervisor::job {

class Job::Impl {
 public:
  Impl(Policy policy, Recovered recovered, Instant now);
  std::vector<Command> step(Instant now, const Event& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  [[nodiscard]] View view() const;

 private:
  // ---- states; only become_* assigns state_
  struct Gathering {};  ///< the coordinator counts hosts, with its own deadline
  struct Adopting {     ///< AgentArrived of all, or HostLost at the coordinator's deadline
    std::map<HostId, protocol::Hello> hellos;
  };
  struct Inspecting {  ///< CheckpointsFound of one, then MarkLooked of the others
    HostId host;
    Instant due;
    bool paused = false;  ///< until `due`, before it is looked at again
    bool marked = false;
    std::set<HostId> awaited;                 ///< have not looked for the mark yet
    std::map<HostId, std::string> elsewhere;  ///< did not find it, and why
  };
  struct Pausing {  ///< storage gets time to come back
    Instant due;
  };
  struct MakingSure {  ///< programs of unreachable hosts may still run
    Instant due;
  };
  struct Forming {                      ///< Formed or CannotForm
    std::optional<Instant> give_up_at;  ///< set while below the minimum
    std::string missing;                ///< who, and why
  };
  struct Journaling {  ///< Journaled
    std::uint64_t ticket = 0;
  };
  struct Preparing {  ///< Prepared of all, and what is restored on disk
    Instant due;
    std::map<HostId, protocol::Prepared> prepared;
    std::uint64_t ticket = 0;  ///< 0: nothing is to be written
  };
  struct Joining {  ///< Connected, then Restored of all
    Instant due;
    std::set<HostId> connected, restored;
    Generation base;  ///< of which some were told the changes only
    std::set<HostId> told_changes;
  };
  struct Running {
    std::optional<Instant> stop_due;    ///< set once StopWorkers is sent
    Instant stop_due_max;               ///< while a checkpoint is being written
    std::optional<Instant> commit_due;  ///< Committed
    std::optional<Instant> end_due;     ///< all ranks are done; the last commit is awaited
    std::optional<Instant> checkpoint_due;
    Instant look_due;  ///< for hangs
  };
  struct Parting {  ///< a program's ends, before a planned regroup
    Instant due;
    std::string reason;
  };
  struct Aborting {  ///< AbortAcknowledged and WorkersGone of all
    Instant began, due;
    std::optional<Instant> judge_due;  ///< cause_window
    std::set<HostId> acknowledged, gone;
    std::set<HostId> unheard, unclean;  ///< members whose AbortAcknowledged, WorkersGone is awaited
    Instant answered;                   ///< when the last of those who can answer did; else `began`
    std::set<HostId> excused;           ///< lost, or their agent is: no answer is to be had
    bool said_aborted = false;
    void excuse(HostId host) {
      excused.insert(host);
      unheard.erase(host);
      unclean.erase(host);
    }
  };
  struct Ending {  ///< Journaled, so that a further incarnation knows that the job is over
    std::uint64_t ticket = 0;
    Instant due;
    Finish finish;
  };
  struct Over {};
  using State =
      std::variant<Gathering, Adopting, Inspecting, Pausing, MakingSure, Forming, Journaling,
                   Preparing, Joining, Running, Parting, Aborting, Ending, Over>;

  void become_aborting_again(Instant now, const Recovered::Broken& broken);
  void become_inspecting(Instant now);
  void become_pausing(Instant due);
  Instant wait_until(Instant now);
  void become_forming(Instant now, std::string reason);
  void become_journaling(Instant now, const rendezvous::Formed& formed);
  void become_preparing(Instant now);
  void become_joining(Instant now, const Preparing& prepared);
  void become_joining_when_prepared(Instant now);
  [[nodiscard]] protocol::ControllerFrame assignment(protocol::Endpoints endpoints) const;
  [[nodiscard]] std::vector<protocol::Listening> endpoints_in(
      const std::map<HostId, protocol::Prepared>& answers) const;
  void become_running(Instant now);
  void enter_running(Instant now);
  void become_parting(Instant now, std::string reason);
  void become_aborting(Instant now, const std::string& reason);
  void become_ending(Instant now, int code, JobState state, std::string sentence);
  void become_over();

  // ---- events
  void on(Instant now, const Begin&);
  void on(Instant now, const AgentArrived& e);
  void on(Instant now, const FromAgent& e);
  void on(Instant now, const FromCoordinator& e);
  void on(Instant now, const StopAsked& e);
  void on(Instant now, const CheckpointAsked&);
  void on(Instant now, const Journaled& e);
  void on(Instant now, const JournalFailed& e);
  void on(Instant now, const RegroupAsked& e);
  void on(Instant now, const DataKnown& e);
  void on(Instant now, const FingerprintKnown& e);
  void on(Instant now, const StepsUntil& e);
  void on(Instant now, const MembershipAsked& e);
  void on(Instant now, const WayKnown& e);
  void on(Instant now, const DeadlineDue&);

  void on_coordinator(Instant now, const rendezvous::QuorumReached& e);
  void on_coordinator(Instant now, const rendezvous::QuorumImpossible& e);
  void on_coordinator(Instant now, const rendezvous::NobodyCameBack& e);
  void on_coordinator(Instant now, const rendezvous::Formed& e);
  void on_coordinator(Instant now, const rendezvous::CannotForm& e);
  void on_coordinator(Instant now, const rendezvous::HostLost& e);
  void on_coordinator(Instant now, const rendezvous::AgentGone& e);
  void on_coordinator(Instant now, const rendezvous::DataPathBecame& e);
  void on_coordinator(Instant now, const rendezvous::HostReturned& e);
  void on_coordinator(Instant now, const rendezvous::MemberDrained& e);
  template <class Other>
  void on_coordinator(Instant, const Other&) {}  // shown by the controller, nothing to decide

  // ---- after a restart of the controller
  void take_up(Instant now, const Recovered& recovered);
  void take_up_links(const std::vector<BrokenLink>& links);
  void judge_adoption(Instant now);
  void adopt_running(Instant now, const Recovered& recovered);
  void note_workers(Instant now, HostId host, const protocol::Hello& hello);
  void note_parting(Instant now, HostId host, const protocol::Hello& hello);
  [[nodiscard]] std::optional<Happening> judge_hello(Instant now, HostId host,
                                                     const protocol::Hello& hello) const;

  void on_evidence(Instant now, HostId host, const protocol::AgentFrame& frame);
  void on_directory_trouble(Instant now, std::string sentence);
  void exclude_checkpoint(HostId host, std::optional<Rank> rank, Step step,
                          const std::string& reason);
  [[nodiscard]] std::vector<std::string> differences_of(const protocol::CheckpointFact& fact) const;
  void on_found(Instant now, HostId host, const protocol::CheckpointsFound& found);
  void look_for_marks(Instant now);
  void on_mark_looked(Instant now, HostId host, const protocol::MarkLooked& looked);
  void not_shared(Instant now);
  void on_inspecting_due(Instant now);
  [[nodiscard]] std::string mark() const;
  void commit_answered();
  void order_commit(Instant now, const protocol::Commit& commit);
  void note_exactness();
  /// Once for a generation.
  void not_exact(std::optional<HostId> host, std::optional<Rank> rank, const std::string& sentence);
  void on_link(Instant now, HostId host, const protocol::Evidence& evidence);
  void on_links_broken(Instant now);
  void link_up(Instant now, HostId host, const std::string& link);
  void forget_path(Instant now, HostId host);
  void give_up_link(const BrokenLink& broken);
  void links_are_up(HostId host);
  void on_heartbeat(Instant now, HostId host, const protocol::Heartbeat& heartbeat);
  void on_prepared(Instant now, HostId host, const protocol::Prepared& prepared);
  void on_connected(Instant now, HostId host);
  void on_restored(Instant now, HostId host, const protocol::Restored& restored);
  void on_written(Instant now, const protocol::Written& written);
  void on_committed(Instant now, HostId host, const protocol::Committed& committed);
  void on_abort_answer(Instant now, HostId host, bool gone);

  void on_stop_confirmed(Instant now, HostId host);
  void on_workers_gone(Instant now, HostId host);
  void note_start(HostId host, Rank rank, std::uint32_t pid);
  void note_exit(const protocol::WorkerExited& exited, bool no_fault);

  // ---- deadlines
  void on_running_due(Instant now, Running& running);
  void on_start_overdue(Instant now, const std::set<HostId>& answered, const std::string& what);
  void retry_journal(Instant now);

  // ---- running
  void note_progress(Instant now);
  void look_for_hang(Instant now);
  /// The next one is due an interval after `from`.
  void plan_checkpoint(Instant from);
  void order_stop(Instant now);
  void stop_workers();
  void part_when_ended(Instant now);
  void end_when_done(Instant now);

  // ---- failing
  void happened(Instant now, Happening happening);
  void regroup(Instant now, std::string reason);
  void settle_abort(Instant now);
  void judge_cause_now();
  void decide(Instant now);
  void blame_host(Instant now);
  /// Once for a generation, however many signs there are of the same fault.
  void blame(Instant now, HostId host, const std::string& reason, bool beyond_doubt = false);
  /// A program there ends by its lease at the latest.
  void may_still_run(Instant now, HostId host);
  [[nodiscard]] RetryInputs count_failure(Instant now);

  // ---- saying
  void send(std::vector<HostId> hosts, protocol::ControllerFrame body);
  void send_all(protocol::ControllerFrame body) { send(members(), std::move(body)); }
  std::uint64_t journal(const std::string& kind, std::string json);
  void journal_incident();
  void acknowledge(HostId host, std::uint64_t number);
  void owe(HostId host, std::uint64_t number, std::uint64_t ticket);
  void pay(std::uint64_t ticket);
  void record(std::string event, std::optional<HostId> host = {}, std::optional<Rank> rank = {},
              std::string detail = {}, std::optional<Step> step = {});
  void incident_changed() { out_.push_back(IncidentChanged{incidents_.present()}); }
  void set_state(JobState state, std::string reason);
  [[nodiscard]] std::vector<HostId> members() const;
  /// Asked for every frame, so that it does not look through the plan.
  [[nodiscard]] bool is_member(HostId host) const { return ranks_.has(host); }
  [[nodiscard]] std::string name(HostId host) const;
  [[nodiscard]] NameOf names() const {
    return [this](HostId host) { return name(host); };
  }
  [[nodiscard]] Counted counted() const;
  /// starting, recovering or stopping: what status shows between two generations.
  [[nodiscard]] JobState state_underway() const;
  [[nodiscard]] bool has_checkpoints() const {
    return policy_.trainer && !policy_.checkpoint_directory.empty();
  }

  [[nodiscard]] bool is_over() const {
    return std::holds_alternative<Ending>(state_) || std::holds_alternative<Over>(state_);
  }

  /// As the name of an interface, for what the other hosts' probes say of the whole path.
  static constexpr const char* kPath = "path";

  Policy policy_;
  std::optional<Recovered> recovered_;  ///< until the generation of before is taken up
  State state_ = Gathering{};
  JobState shown_ = JobState::starting;
  std::string reason_;
  Generation generation_;
  rendezvous::Plan plan_;
  Ranks ranks_;
  Checkpoints checkpoints_;
  IncidentBook incidents_;
  RestartBudget budget_;
  UserErrorRule user_error_;
  CrashWatch crashes_;
  LinkWatch links_;
  std::map<HostId, std::string> fingerprints_;
  std::optional<std::set<std::string>> first_fingerprints_;  ///< of the first generation
  std::optional<Generation> not_exact_;                      ///< the newest that was said to be so
  bool must_be_empty_;  ///< --fresh, until the directory has been looked at
  std::string data_;    ///< of the training data, as in a manifest
  std::optional<Step> restore_step_;
  std::optional<std::uint32_t> logical_batches_;  ///< of the checkpoint, or chosen at the start
  std::optional<Step> best_step_;                 ///< highest ever completed by all ranks
  std::uint32_t without_progress_ = 0;
  std::uint32_t free_retries_ = 0;
  bool advanced_ = false;                 ///< this generation completed a step
  bool progressed_ = false;               ///< one that none had completed before
  std::optional<Instant> running_since_;  ///< the newest Go
  std::optional<Instant> began_at_;       ///< Go of this generation
  std::optional<StopAsked> stop_;
  std::string regroup_reason_;        ///< not empty: wanted at the next checkpoint
  std::set<HostId> unusable_;         ///< for the next generation only
  std::set<HostId> excluded_;         ///< from the present one, until their workers are gone
  std::map<HostId, Instant> unsure_;  ///< programs there are surely gone by then
  std::set<std::pair<HostId, bool>> blamed_;  ///< in this generation, and whether beyond doubt
  std::optional<Instant> wait_until_;         ///< for hosts, as an earlier incarnation began to
  std::map<HostId, Instant> unsure_before_;  ///< of an earlier incarnation, whose agents are silent
  std::map<HostId, std::uint64_t> evidence_seen_;  ///< highest number, of the present agent
  struct Owed {
    std::uint64_t ticket = 0;  ///< kNextRow: of the row that is written next
    std::uint64_t number = 0;
  };
  static constexpr std::uint64_t kNextRow = ~std::uint64_t{0};
  std::map<HostId, Owed> owed_;  ///< acknowledged once what follows from it is on disk
  std::uint64_t stop_ticket_ = 0, regroup_ticket_ = 0;
  std::string regroup_order_;                          ///< what `regroup_ticket_` waits for
  std::map<std::uint64_t, protocol::Commit> commits_;  ///< waiting for their journal entry
  std::map<std::uint64_t, Journal> unwritten_;         ///< until Journaled
  std::optional<Instant> journal_due_;                 ///< the next try, after a failure
  protocol::EndpointList assigned_;                    ///< of the newest Assign
  std::uint32_t master_port_ = 0;                      ///< of a program, in this generation
  std::string reason_before_;                          ///< what the state's reason was before that
  std::string last_commit_error_;                      ///< of the newest checkpoint, if it failed
  std::uint64_t tickets_ = 0;
  nanoseconds interval_{};              ///< between checkpoints, where it is computed
  Instant started_;                     ///< the job
  std::uint64_t incidents_before_ = 0;  ///< of those that are numbered, before it started
  std::vector<Command> out_;
};

}  // namespace dlaunch::supervisor::job
