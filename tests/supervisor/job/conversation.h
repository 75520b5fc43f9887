// A job and scripted surroundings: carries out one verb per line of a conversation script.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "supervisor/job/job.h"
#include "supervisor/job/journal_rows.h"

namespace dlaunch::supervisor::job {

/// Verbs, and what they stand for (LIST = host names; most default to all members):
///   job KEY=VALUE…               the policy; first line. hosts=a:2,b:2 names hosts and workers
///   restart [lost_rows=N]        kill -9 of the controller: a job from what the journal holds
///   hello [LIST] [phase=P] [g=G] [step=N] [aborted] [stop_told] [dead] [finished]
///   nobody                       came back within `readmit`
///   wait DURATION                deadlines on the way are kept
///   quorum | impossible [by_key] [by_files] TEXT | cannot_form TEXT
///   formed G LIST [replaced=x>y] the coordinator's plan; ranks follow the order
///   lost HOST [ago=D] | gone HOST | returned HOST [joins]
///   journal on|off|fails         whether Journal is answered at once; `journaled` answers late
///   found [STEP…|STEP!…] [error=T] [locked=JOB] [config=JSON] | data JSON
///   looked [LIST] [error=T]       the members but the first look for the mark of `found`
///   fingerprint HOST TEXT
///   prepared [LIST] [held=G]     G: of the newest Assign that its agent has
///   connected | restored STEP  [LIST]
///   run [STEP]                   macro: from the plan to Go, restored at STEP
///   progress STEP [rank=R] [phase=P] [sequence=N] [entered] [process=T] [state=S]
///       [since=D]              nothing has changed for so long, as the agent says
///   exited HOST RANK [code=N] [signal=N] [oom] [finished] [ordered] [step=N] [line=T]
///   failing HOST RANK CATEGORY REASON | finding HOST KIND TEXT | link HOST up|down
///   path HOST up|down            what the probes of the other hosts come to
///   written STEP [rank=R] | committed STEP [error=T]
///   acknowledged | cleaned  [LIST] | leave [LIST]: both
///   stop [now] [preempted] | checkpoint | regroup REASON | view
/// Of evidence: number=N (default: the host's next), g=G, ago=D.
class Conversation {
 public:
  Conversation();
  /// Lines of answer.
  std::vector<std::string> perform(const std::string& line);
  /// Where the job runs and all members live: another controller takes over, and its agents come
  /// back and repeat what agents repeat. False: it does not.
  bool take_over();

 private:
  struct Words {
    std::deque<std::string> plain;
    std::map<std::string, std::string> named;
    std::set<std::string> flags;

    std::string next();
    [[nodiscard]] std::string get(const std::string& key, const std::string& otherwise) const;
    [[nodiscard]] std::uint64_t number(const std::string& key, std::uint64_t otherwise) const;
    [[nodiscard]] bool has(const std::string& flag) const { return flags.contains(flag); }
    [[nodiscard]] std::string rest() const;
  };
  using Verb = void (Conversation::*)(Words&);
  static const std::map<std::string, Verb>& verbs();
  static Words parse(const std::vector<std::string>& words);

  void job(Words& words);
  void restart(Words& words);
  void hello(Words& words);
  void nobody(Words&);
  void wait(Words& words);
  void quorum(Words&);
  void impossible(Words& words);
  void cannot_form(Words& words);
  void formed(Words& words);
  void lost(Words& words);
  void gone(Words& words);
  void returned(Words& words);
  void journal(Words& words);
  void journaled(Words&);
  void found(Words& words);
  void data(Words& words);
  void looked(Words& words);
  void fingerprint(Words& words);
  void prepared(Words& words);
  void connected(Words& words);
  void restored(Words& words);
  void run(Words& words);
  void progress(Words& words);
  void exited(Words& words);
  void failing(Words& words);
  void finding(Words& words);
  void link(Words& words);
  void path(Words& words);
  void written(Words& words);
  void committed(Words& words);
  void acknowledged(Words& words);
  void cleaned(Words& words);
  void leave(Words& words);
  void stop(Words& words);
  void checkpoint(Words&);
  void regroup(Words& words);
  void view(Words&);

  /// About the present generation.
  [[nodiscard]] bool is_present(const Words& words) const {
    return words.number("g", plan_.generation.value) == plan_.generation.value;
  }
  void note_status(const protocol::WorkerStatus& status);
  [[nodiscard]] protocol::Hello hello_of(const rendezvous::Member& member) const;
  void come_back(const rendezvous::Member& member);
  void feed(const Event& event);
  void from(HostId host, protocol::AgentFrame frame, std::optional<std::uint64_t> generation = {});
  void testify(HostId host, Words& words, protocol::Evidence evidence);
  [[nodiscard]] HostId host(const std::string& name) const;
  [[nodiscard]] std::vector<HostId> hosts_or_members(const Words& words) const;

  std::optional<Job> job_;
  Policy policy_;
  Instant now_ = Instant{} + 1h;
  std::map<HostId, std::uint32_t> workers_;
  std::map<HostId, std::uint64_t> evidence_;
  rendezvous::Plan plan_;
  std::set<HostId> dead_;
  std::string journal_mode_ = "on";
  std::deque<std::uint64_t> tickets_;
  std::vector<JournalEntry> rows_;  ///< on disk, for `restart`
  // What agents know and repeat, for `take_over`.
  struct Told {
    protocol::WorkerStatus status;
    Instant changed_at;
  };
  std::map<std::uint32_t, Told> told_;                      ///< by rank
  std::map<std::uint32_t, protocol::WorkerExited> exited_;  ///< by rank
  std::map<std::uint32_t, protocol::Written> written_;      ///< by rank
  std::optional<protocol::Committed> committed_;
  std::map<HostId, Instant> links_down_;
  std::map<HostId, rendezvous::DataPathBecame> paths_;  ///< that are down, as probes say again
  std::map<HostId, std::string> fingerprints_;
  std::string wish_;  ///< of a person or a host that is back, which the coordinator says again
  std::string data_;
  std::uint64_t incidents_ = 0;
  std::vector<std::string> out_;
};

}  // namespace dlaunch::supervisor::job
