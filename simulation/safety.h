// What must hold after every single step, whatever happens. Each check is O(log hosts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "supervisor/job/command.h"

namespace dlaunch::simulation {

/// S1 no two live workers share (job, generation, rank), and only the newest generation publishes;
/// S2 a host that saw generation g starts nothing older; S3 ranks are dense and the same for all;
/// S4 the restart budget is kept; S5 after the end nothing is left; S6 each command is answered at
/// most once; S7 what is not finished waits for something; S8 a program is started anew only where
/// the old one is gone; S9 obeyed is only the newest controller that a host has heard.
/// S10 what has an effect outside is in the journal before. S11 an agent that is heard is not made
/// to leave for another. S6, S7, S9 to S11 are seen by the hands that answer.
class Safety {
 public:
  struct Setting {
    std::uint32_t restarts_max = 10;
    nanoseconds restarts_window = 1h;
    bool program = false;
  };
  explicit Safety(Setting setting) : setting_(setting) {}

  void worker_started(HostId host, Rank rank, Generation generation, Generation seen);
  void worker_ended(Rank rank, Generation generation);
  void assigned(HostId host, Rank rank, bool consistent);
  void go(Generation generation, bool complete);
  void published(HostId host, Generation generation, std::uint64_t step);
  void recorded(Instant now, const supervisor::job::Record& record);
  void incident_changed(const supervisor::job::Incident& incident) {
    incident_ = incident;
    failed_ = failed_ || aborting_;
  }
  /// A controller has done one event: what was decided by it is decided.
  void stepped();
  void broken(std::string rule);

  /// Those that did not hold; the first is the one to look at.
  [[nodiscard]] const std::vector<std::string>& rules_broken() const { return broken_; }

 private:
  void count_restart(Instant now);

  static constexpr std::size_t kBrokenKept = 20;

  Setting setting_;
  struct Living {
    std::vector<std::optional<HostId>> on;  ///< by rank
    std::size_t count = 0;
  };
  std::map<Generation, Living> live_;  ///< those of which some worker lives
  Generation newest_publisher_;
  std::optional<supervisor::job::Incident> incident_;
  bool aborting_ = false;  ///< since the order to abort, until all workers are gone
  bool failed_ = false;    ///< by a fault, not by a person's wish
  bool deciding_ = false;  ///< all workers are gone, in this very step
  /// Of the generation that ended last. An incident of several generations may show another one,
  /// and what comes to light after the decision changes it no more.
  std::string decided_by_;
  std::deque<Instant> spends_;
  std::vector<std::string> broken_;
};

}  // namespace dlaunch::simulation
