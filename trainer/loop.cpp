// Reads top to bottom: agree, compute gradients, agree, step, save; at the end wait for the disk.
#include "trainer/loop.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/comm/lanes.h"
#include "trainer/comm/tree_sum.h"
#include "trainer/data/batch.h"
#include "trainer/io/clock.h"
#include "trainer/parallel/adamw.h"

namespace dlaunch::trainer {

using protocol::worker::FailingCategory;

namespace {

/// Bits of the step's scalar reduction: what any rank was asked for.
constexpr std::uint64_t kCheckpointBit = 1;
constexpr std::uint64_t kStopBit = 2;
constexpr std::uint64_t kStopCheckpointBit = 4;

/// What all ranks know at a boundary between steps, the same on each.
struct Agreement {
  double loss = 0;
  bool checkpoint = false;
  bool stop = false;
  bool stop_checkpoint = false;
};

/// One rank's way through the loop. A failure is kept and every later part is skipped.
class Loop {
 public:
  explicit Loop(Training& training)
      : training_(training),
        mine_(comm::micro_batches_of_rank(training.settings.logical_batches,
                                          training.communicator.world_size(),
                                          training.communicator.rank())),
        batch_(training.settings),
        reducer_(training.layout, training.communicator) {}

  Outcome run() {
    auto& state = training_.state;
    // A stop may have come before the first step, and not to all ranks at the same time.
    auto agreed = agree(/*loss=*/0);
    while (!failed_ && !agreed.stop && state.step < training_.settings.steps) {
      const auto begun = trainer_now();
      waited_ = nanoseconds{0};
      const double loss = compute_gradients();
      if (failed_) break;
      agreed = agree(loss);
      if (failed_) break;
      take_step(agreed);
      if (failed_) break;
      training_.observer.completed(state.step, agreed.loss, to_seconds(trainer_now() - begun),
                                   to_seconds(waited_));
      if (agreed.checkpoint || is_due(state.step)) save();
      if (agreed.checkpoint) training_.mailbox.met_checkpoint();
      watch_disk();
    }
    if (!failed_ && (!agreed.stop || agreed.stop_checkpoint)) save();
    if (!failed_) finish_saving();
    return failed_ ? *failed_ : Outcome{Finished{state.step}};
  }

 private:
  /// The sum over this rank's micro-batches of their mean losses; gradients are in the reducer,
  /// summed over all ranks.
  double compute_gradients() {
    std::vector<double> losses;
    reducer_.begin_step(mine_.count);
    for (std::uint32_t i = 0; i < mine_.count; ++i) {
      batch_.fill(training_.text, training_.order, training_.state.step, mine_.first + i);
      training_.observer.entered("forward");
      const auto loss = training_.model.forward(batch_.view());
      if (!loss) return fail_alone(loss.error());
      losses.push_back(*loss);
      if (training_.abort.is_set()) return fail(leave());
      training_.observer.entered("backward");
      const auto done = training_.model.backward(
          reducer_.gradients(), [this](std::size_t parameter) { reducer_.on_ready(parameter); });
      if (!done) return fail_alone(done.error());
      if (training_.abort.is_set()) return fail(leave());
    }
    training_.observer.entered("reduce");
    const auto begun = trainer_now();
    const auto reduced = reducer_.finish();
    waited_ += trainer_now() - begun;
    if (!reduced) return fail(reduced.error());
    return comm::tree_sum(losses);
  }

  /// One small message per step carries the loss and every request, so that all ranks act at the
  /// same boundary.
  Agreement agree(double loss) {
    const auto requests = training_.mailbox.requests();
    comm::Scalars mine;
    mine.sums = {loss};
    mine.any_flags = (requests.checkpoint ? kCheckpointBit : 0) | (requests.stop ? kStopBit : 0) |
                     (requests.stop_checkpoint ? kStopCheckpointBit : 0);
    const auto begun = trainer_now();
    const auto all = training_.communicator.all_reduce_scalars(mine);
    waited_ += trainer_now() - begun;
    if (!all) {
      fail(all.error());
      return {};
    }
    return {all->sums[0] / training_.settings.logical_batches,
            (all->any_flags & kCheckpointBit) != 0, (all->any_flags & kStopBit) != 0,
            (all->any_flags & kStopCheckpointBit) != 0};
  }

  /// Waits for nothing and ignores aborts: the state is never left half changed.
  void take_step(const Agreement& agreed) {
    auto& state = training_.state;
    const auto& settings = training_.settings;
    const double share = 1.0 / settings.logical_batches;  // a power of two: exact
    const double norm = norm_of(reducer_.gradients()) * share;
    if (!std::isfinite(agreed.loss) || !std::isfinite(norm)) {
      fail(Failed{FailingCategory::bad_numbers,
                  "step " + std::to_string(state.step + 1) + ": the " +
                      (std::isfinite(agreed.loss) ? "gradient" : "loss") +
                      " is no finite number; a lower learning_rate or a longer warmup_steps is "
                      "the usual cure"});
      return;
    }
    training_.observer.entered("optimizer");
    adamw_step(training_.layout,
               {state.values.values(), state.moments.values(), state.second_moments.values()},
               reducer_.gradients(), share * clip_factor(norm, settings.clip), settings,
               learning_rate_at(settings, state.step), state.step + 1);
    ++state.step;
  }

  [[nodiscard]] bool is_due(std::uint64_t step) const {
    const auto every = training_.settings.checkpoint_every_steps;
    return every > 0 && step % every == 0;
  }

  void save() {
    if (training_.saver.newest() == training_.state.step) return;
    training_.observer.entered("checkpoint");
    if (const auto started = training_.saver.start(training_.state); !started) {
      fail(Failed{FailingCategory::storage, started.error().text()});
    }
  }
  /// A checkpoint that failed in the background is found at the next boundary.
  void watch_disk() {
    if (const auto good = training_.saver.trouble(); !good) {
      fail(Failed{FailingCategory::storage, good.error().text()});
    }
  }
  void finish_saving() {
    training_.observer.entered("checkpoint");
    if (const auto done = training_.saver.finish(); !done) {
      fail(Failed{FailingCategory::storage, done.error().text()});
    }
  }

  double fail(Outcome outcome) {
    if (!failed_) failed_ = std::move(outcome);
    return 0;
  }
  double fail(const Error& error) {
    const bool memory = error.code == std::errc::not_enough_memory;
    return fail(Failed{memory ? FailingCategory::out_of_memory : FailingCategory::user_error,
                       error.text()});
  }
  /// Only this rank knows of it. What it has started is ended first: until then it would be reduced
  /// into memory that goes with this loop.
  double fail_alone(const Error& error) {
    training_.abort.set("rank " + std::to_string(training_.communicator.rank().value) +
                        " fails: " + error.text());
    static_cast<void>(leave());
    return fail(error);
  }
  /// Ends this rank's part in the mesh; by failing in a collective it tells the others that this
  /// is an abort and no loss.
  [[nodiscard]] comm::CommFailure leave() {
    const auto left = training_.communicator.barrier();
    if (!left) return left.error();
    return {comm::FailureKind::aborted, {std::error_code{}, training_.abort.reason()}, {}};
  }

  Training& training_;
  const comm::TreeNode mine_;
  BatchBuffer batch_;
  GradientReducer reducer_;
  nanoseconds waited_{0};
  std::optional<Outcome> failed_;
};

}  // namespace

Outcome train(Training& training) { return Loop(training).run(); }

}  // namespace dlaunch::trainer
