#include "supervisor/job/incident_book.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"

namespace dlaunch::supervisor::job {
namespace {

int reach(const std::string& verdict) {
  constexpr std::array kReach = {"",     "ride_out", "restart_workers", "replace_host", "shrink",
                                 "wait", "stop"};
  const auto found = std::find(kReach.begin(), kReach.end(), verdict);
  DL_CHECK(found != kReach.end(), "a verdict is one of docs/states.md");
  return static_cast<int>(found - kReach.begin());
}

}  // namespace

void IncidentBook::add(Happening happening, Generation broken, Instant now) {
  happening.happened_at = std::min(happening.happened_at, now);
  if (!open_) {
    open_.emplace();
    open_->opened = now;
    open_->happened = happening.happened_at;
    Incident incident;
    incident.id = ++last_id_;
    incident.generation = broken;
    incidents_.push_back(std::move(incident));
    if (incidents_.size() > kIncidentsKept) incidents_.erase(incidents_.begin());
  }
  if (open_->happenings.size() < kHappeningsKept) {
    explain(happening, std::span(open_->happenings).subspan(open_->round));
    open_->happenings.push_back(std::move(happening));
  }
  write(now);
}

void IncidentBook::restore(const OpenIncident& saved, bool same_clock, Instant now) {
  open_.emplace();
  open_->happenings.push_back(saved.cause);
  open_->done = saved.done;
  open_->opened = same_clock ? saved.opened : now;
  open_->happened = same_clock ? saved.happened : now;
  open_->happenings.front().happened_at = open_->happened;
  const auto phase = [&](std::optional<Instant> at) { return same_clock ? at : std::nullopt; };
  open_->aborted = phase(saved.aborted);
  open_->replaced = phase(saved.replaced);
  open_->regrouped = phase(saved.regrouped);
  open_->restored = phase(saved.restored);
  last_id_ = std::max(last_id_, saved.incident.id);
  incidents_.push_back(saved.incident);
  write(now);
}

OpenIncident IncidentBook::saved() const {
  DL_CHECK(open_.has_value(), "there is an open incident");
  return {incidents_.back(), open_->happenings[open_->cause],
          open_->done,       open_->happened,
          open_->opened,     open_->aborted,
          open_->replaced,   open_->regrouped,
          open_->restored};
}

void IncidentBook::begin_round() {
  if (open_) open_->round = open_->happenings.size();
}

bool IncidentBook::judge() {
  DL_CHECK(open_.has_value(), "a cause is chosen for an open incident");
  const auto before = open_->happenings[open_->cause];
  open_->cause = judge_cause(open_->happenings);
  open_->round_cause = open_->cause;
  if (open_->round > 0 && open_->round < open_->happenings.size()) {
    open_->round_cause =
        open_->round + judge_cause(std::span(open_->happenings).subspan(open_->round));
  }
  const auto& chosen = open_->happenings[open_->cause];
  write(open_->opened);
  return chosen.cause != before.cause || chosen.host != before.host || chosen.rank != before.rank;
}

void IncidentBook::verdict(std::string verdict, std::string what_is_done) {
  if (!open_) return;
  auto& shown = incidents_.back().verdict;
  if (reach(verdict) >= reach(shown)) shown = std::move(verdict);
  if (incidents_.back().verdict == "stop") open_->cause = open_->round_cause;
  open_->done = std::move(what_is_done);
  write(open_->opened);
}

void IncidentBook::restored(Instant now, std::uint64_t lost_steps) {
  if (!open_) return;
  incidents_.back().lost_steps = lost_steps;
  mark(&Open::restored, now);
}

void IncidentBook::mark(std::optional<Instant> Open::*phase, Instant now) {
  if (!open_) return;
  (*open_).*phase = now;
  write(now);
}

void IncidentBook::call(const std::string& cause) {
  if (open_) open_->happenings[open_->round_cause].cause = cause;
}

void IncidentBook::close(Instant now, bool stepped) {
  if (!open_) return;
  open_->stepped = stepped;
  incidents_.back().closed = true;
  write(now);
  open_.reset();
}

/// Phases follow one another, so that their sum is the total whatever was gone through twice.
void IncidentBook::write(Instant now) {
  auto& incident = incidents_.back();
  const auto& chosen = open_->happenings[open_->cause];
  incident.cause = chosen.cause;
  incident.newest_cause = open_->happenings[open_->round_cause].cause;
  incident.host = chosen.host;
  incident.rank = chosen.rank;
  incident.last_lines = chosen.last_lines;
  incident.sentence = chosen.what + (open_->done.empty() ? "" : "; " + open_->done);
  auto& seconds = incident.seconds;
  Instant last = open_->opened;
  const auto phase = [&](std::optional<Instant> end) {
    if (!end || *end < last) return 0.0;
    const auto length = to_seconds(*end - last);
    last = *end;
    return length;
  };
  seconds.detect = to_seconds(open_->opened - open_->happened);
  seconds.abort = phase(open_->aborted);
  seconds.replace = phase(open_->replaced);
  seconds.regroup = phase(open_->regrouped);
  seconds.restore = phase(open_->restored);
  seconds.first_step = open_->stepped ? phase(now) : 0;
  seconds.total = to_seconds(last - open_->happened);
}

const Happening& IncidentBook::cause() const {
  DL_CHECK(open_.has_value(), "there is an open incident");
  return open_->happenings[open_->round_cause];
}

bool IncidentBook::covers(Generation generation) const {
  return open_ && incidents_.back().generation <= generation;
}

const Incident& IncidentBook::present() const {
  DL_CHECK(!incidents_.empty(), "there has been an incident");
  return incidents_.back();
}

}  // namespace dlaunch::supervisor::job
