// What the controller's shell says and keeps: events, status, output, the keeper's pulse.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/controller/io/controller_shell.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::controller {

using nlohmann::json;
namespace job = supervisor::job;

namespace {

// The keeper's pulse, progress and status hang on this clock.
constexpr auto kTick = 500ms;
constexpr std::uint64_t kTicksPerPulse = 2;
// Rendering the status of tens of thousands of ranks takes a while: of the time of the thread that
// decides it gets at most one part in so many.
constexpr int kStatusShare = 50;
// What a controller that is killed loses of the output of a generation that runs.
constexpr nanoseconds kOutputEvery = 60s;
// Strangers may knock as often as they like; one event a second says so.
constexpr nanoseconds kRefusalEvery = 1s;

}  // namespace

void ControllerShell::record(const job::Record& entry) {
  EventRow row;
  row.time = unix_now();
  row.mono_ns = monotonic_now().time_since_epoch().count();
  row.event = entry.event;
  row.generation = entry.generation.value;
  if (entry.host) row.host = identity_.host_names[*entry.host];
  if (entry.rank) row.rank = entry.rank->value;
  if (entry.step) row.step = static_cast<std::int64_t>(entry.step->value);
  row.detail = entry.detail;
  const auto& kept = events_.add(std::move(row));
  parts_.log->info("event {}", protocol::json_text(event_json(kept)));
  writer_->put(kept);
  if (kept.event == "checkpoint_committed" && entry.step) {
    writer_->put(CheckpointRow{entry.step->value, kept.time});
  }
  sessions_.on_event();
}

void ControllerShell::say(const std::string& sentence) {
  parts_.log->info("{}", sentence);
  sessions_.tell({{"type", "say"}, {"sentence", sentence}});
}

void ControllerShell::on_refused(const std::string& sentence) {
  parts_.log->warn("{}", sentence);
  const auto now = monotonic_now();
  if (refusal_recorded_ && now - *refusal_recorded_ < kRefusalEvery) {
    ++refusals_unsaid_;
    return;
  }
  refusal_recorded_ = now;
  const auto unsaid = std::exchange(refusals_unsaid_, 0);
  record({"connection_refused",
          machine_.job().generation,
          {},
          {},
          {},
          sentence + (unsaid == 0 ? "" : ", and " + std::to_string(unsaid) + " more before it")});
}

void ControllerShell::arm_clock() {
  clock_.expires_after(kTick);
  clock_.async_wait([this](const boost::system::error_code& code) {
    if (code || ended_) return;
    on_clock();
    arm_clock();
  });
}

void ControllerShell::on_clock() {
  const auto view = machine_.job();
  tell_progress(view);
  if (++ticks_ % kTicksPerPulse != 0) return;
  if (monotonic_now() >= status_due_) store_status(view);
  store_output(&view);
  // A full pipe means a keeper that does not read: nothing is owed to it.
  if (parts_.pulse >= 0 && ::write(parts_.pulse, "p", 1) < 0) return;
}

void ControllerShell::store_status(const job::View& view) {
  const auto began = monotonic_now();
  const auto shown = status_json(identity_, machine_.hosts(), view, began);
  writer_->put(StatusRow{unix_now(), protocol::json_text(shown)});
  status_due_ = began + kStatusShare * (monotonic_now() - began);
}

/// What all ranks printed last: of a generation that broke (later lines follow the news of it), now
/// and then of one that runs, and of each at the end (no `view`).
void ControllerShell::store_output(const job::View* view) {
  const auto now = monotonic_now();
  const bool routine = now >= output_due_;
  if (routine) output_due_ = now + kOutputEvery;
  for (const auto generation : output_.unsaved()) {
    const bool fine =
        !routine && view != nullptr && generation == view->generation &&
        (view->state == job::JobState::starting || view->state == job::JobState::running);
    if (fine) continue;
    writer_->put(OutputRow{generation, output_.of(generation)});
    output_.saved(generation);
  }
}

void ControllerShell::read_older_events(std::uint64_t after, std::size_t rows_max,
                                        Sessions::OlderEvents done) {
  writer_->read([this, after, rows_max, done = std::move(done)](RunStore& store) {
    auto rows = store.events(after, rows_max);
    boost::asio::post(context_, [done, events = rows ? std::move(*rows) : std::vector<EventRow>()] {
      done(events);
    });
  });
}

void ControllerShell::tell_progress(const job::View& view) {
  if (!view.step) return;
  // A commit tells of a step, too: its loss may be heard later. So is what was validated after it.
  const auto step = view.loss_step.value_or(*view.step);
  if (step != kept_step_ || view.figures.validation_step != kept_validation_) {
    kept_step_ = step;
    kept_validation_ = view.figures.validation_step;
    writer_->put(MetricRow{unix_now(), step.value, view.loss, view.tokens_per_second,
                           view.step_seconds, view.figures});
  }
  if (view.step == told_step_) return;
  told_step_ = view.step;
  sessions_.tell({{"type", "progress"},
                  {"generation", view.generation.value},
                  {"step", view.step->value},
                  {"steps", identity_.steps == 0 ? json(nullptr) : json(identity_.steps)},
                  {"loss", view.loss ? json(*view.loss) : json(nullptr)},
                  {"tokens_per_second", view.tokens_per_second},
                  {"step_seconds", view.step_seconds},
                  {"figures", figures_json(view.figures)}});
}

}  // namespace dlaunch::launcher::controller
