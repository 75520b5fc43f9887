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

/// All incidents of the job, at most one of them open. Further faults before the first new step
/// join the open one.
class IncidentBook {
 public:
  static constexpr std::size_t kIncidentsKept = 200;  ///< older ones stand in run.db

  explicit IncidentBook(std::uint64_t last_id) : last_id_(last_id) {}

  [[nodiscard]] bool is_open() const { return open_.has_value(); }
  /// Opens an incident of generation `broken` or joins the open one.
  void add(Happening happening, Generation broken, Instant now);
  /// Chooses the cause over all that happened since the last abort; true: another than before.
  bool judge();
  void verdict(std::string verdict, std::string what_is_done);

  void aborted(Instant now) { mark(&Open::aborted, now); }
  void replaced(Instant now) { mark(&Open::replaced, now); }
  void regrouped(Instant now) { mark(&Open::regrouped, now); }
  void restored(Instant now, std::uint64_t lost_steps);
  /// The first new step, or the end of the job, closes it.
  void close(Instant now);

  [[nodiscard]] const Happening& cause() const;
  [[nodiscard]] const Incident& present() const;
  [[nodiscard]] const std::vector<Incident>& all() const { return incidents_; }
  [[nodiscard]] std::uint64_t count() const { return last_id_; }

 private:
  struct Open {
    std::vector<Happening> happenings;
    std::size_t cause = 0;
    std::string done;
    Instant happened, opened;
    std::optional<Instant> aborted, replaced, regrouped, restored;
  };
  void mark(std::optional<Instant> Open::*phase, Instant now);
  void write(Instant now);

  std::uint64_t last_id_;
  std::vector<Incident> incidents_;
  std::optional<Open> open_;
};

}  // namespace dlaunch::supervisor::job
