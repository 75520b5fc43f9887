// The open incident: what happened, when each phase of the recovery ended, what it cost.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "supervisor/job/cause.h"
#include "supervisor/job/command.h"

namespace dlaunch::supervisor::job {

/// What a further incarnation of the controller needs to go on with the open incident.
struct OpenIncident {
  Incident incident;  ///< id, generation, verdict, lost steps and exactness
  Happening cause;    ///< the one chosen so far
  std::string done;
  Instant happened, opened;
  std::optional<Instant> aborted, replaced, regrouped, restored;
};

/// All incidents of the job, at most one of them open. Further faults before the first new step
/// join the open one.
class IncidentBook {
 public:
  static constexpr std::size_t kIncidentsKept = 200;  ///< older ones stand in run.db
  /// Per incident: 4,096 hosts with a few lines of evidence each; what comes later explains
  /// nothing.
  static constexpr std::size_t kHappeningsKept = 20'000;

  explicit IncidentBook(std::uint64_t last_id) : last_id_(last_id) {}

  [[nodiscard]] bool is_open() const { return open_.has_value(); }
  /// Goes on with one of an earlier incarnation. Its times count only where the clock is the same:
  /// the machine has not booted since.
  void restore(const OpenIncident& open, bool same_clock, Instant now);
  [[nodiscard]] OpenIncident saved() const;
  /// Something has happened since the last `begin_round`: it was no planned end of a generation.
  [[nodiscard]] bool has_happened() const {
    return open_ && open_->round < open_->happenings.size();
  }
  /// Opens an incident of generation `broken` or joins the open one.
  void add(Happening happening, Generation broken, Instant now);
  /// From now on `cause` is about what happens in a further generation of the open incident.
  void begin_round();
  /// The abort is that of what an earlier incarnation knew of.
  void go_on_with_round() {
    if (open_) open_->round = 0;
  }
  /// Chooses the cause; true: another than before.
  bool judge();
  /// The furthest-reaching of the incident's verdicts is shown. "stop" also makes the present
  /// round's cause the incident's: it is why the job ends.
  void verdict(std::string verdict, std::string what_is_done);

  /// The present round's cause gets another name.
  void call(const std::string& cause);

  void aborted(Instant now) { mark(&Open::aborted, now); }
  void replaced(Instant now) { mark(&Open::replaced, now); }
  void regrouped(Instant now) { mark(&Open::regrouped, now); }
  void restored(Instant now, std::uint64_t lost_steps);
  /// The generation that follows need not give the same bits.
  void not_exact() {
    if (open_) incidents_.back().exact = false;
  }
  /// The first new step closes it.
  void close(Instant now) { close(now, true); }
  /// The end of the job closes it; there was no first step.
  void give_up(Instant now) { close(now, false); }

  /// What explains the present round; the incident shows what explains all of it.
  [[nodiscard]] const Happening& cause() const;
  /// An incident of this or an older generation is open, so that its late evidence still counts.
  [[nodiscard]] bool covers(Generation generation) const;
  [[nodiscard]] const Incident& present() const;
  [[nodiscard]] const std::vector<Incident>& all() const { return incidents_; }
  [[nodiscard]] std::uint64_t count() const { return last_id_; }

 private:
  struct Open {
    std::vector<Happening> happenings;
    std::size_t round = 0;  ///< index of its first
    std::size_t cause = 0, round_cause = 0;
    std::string done;
    bool stepped = false;
    Instant happened, opened;
    std::optional<Instant> aborted, replaced, regrouped, restored;
  };
  void mark(std::optional<Instant> Open::*phase, Instant now);
  void close(Instant now, bool stepped);
  void write(Instant now);

  std::uint64_t last_id_;
  std::vector<Incident> incidents_;
  std::optional<Open> open_;
};

}  // namespace dlaunch::supervisor::job
