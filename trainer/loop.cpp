// Reads top to bottom: agree, compute gradients, agree, step, save; at the end wait for the disk.
#include "trainer/loop.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/overloaded.h"
#include "trainer/data/batch.h"
#include "trainer/io/clock.h"
#include "trainer/parallel/adamw.h"
#include "trainer/parallel/exact_sum.h"

namespace dlaunch::trainer {

using protocol::worker::FailingCategory;

namespace {

/// Bits of the step's scalar reduction: what any rank was asked for.
constexpr std::uint64_t kCheckpointBit = 1;
constexpr std::uint64_t kStopBit = 2;
constexpr std::uint64_t kStopCheckpointBit = 4;
/// And what any rank saw of the numbers.
constexpr std::uint64_t kBadLossBit = 8;
constexpr std::uint64_t kBadGradientBit = 16;

/// What all ranks know at a boundary between steps, the same on each.
struct Agreement {
  double loss = 0;  ///< mean over the step's tokens
  double norm = 0;  ///< of the mean gradient
  bool checkpoint = false;
  bool stop = false;
  bool stop_checkpoint = false;
};

/// One rank's way through the loop. A failure is kept and every later part is skipped.
class Loop {
 public:
  explicit Loop(Training& training)
      : training_(training),
        batches_(kSlots, BatchBuffer(training.settings)),
        engine_(training.placement.make_engine(hands(), training.state.values.values())) {}

  Outcome run() {
    auto& state = training_.state;
    // A stop may have come before the first step, and not to all ranks at the same time.
    auto agreed = agree({}, {});
    while (!failed_ && !agreed.stop && state.step < training_.settings.steps) {
      const auto begun = trainer_now();
      const auto sent_before = training_.communicator.bytes_sent();
      const auto collectives_before = training_.communicator.collective_seconds();
      waited_ = nanoseconds{0};
      ExactSum losses, squares;
      compute_gradients(losses, squares);
      if (failed_) break;
      agreed = agree(losses, squares);
      if (failed_) break;
      take_step(agreed);
      if (failed_) break;
      training_.observer.completed(
          {state.step, agreed.loss, agreed.norm, to_seconds(trainer_now() - begun),
           to_seconds(waited_), engine_->gathered(),
           training_.communicator.bytes_sent() - sent_before,
           training_.communicator.collective_seconds() - collectives_before});
      if (is_validation_due(state.step) && !agreed.stop) validate();
      if (failed_) break;
      if (agreed.checkpoint || is_due(state.step)) save();
      if (agreed.checkpoint) training_.mailbox.met_checkpoint();
      watch_disk();
    }
    if (!failed_ && (!agreed.stop || agreed.stop_checkpoint)) save();
    if (!failed_) finish_saving();
    return failed_ ? *failed_ : Outcome{Finished{state.step}};
  }

 private:
  EngineHands hands() {
    return {training_.model,
            training_.placement.whole(),
            training_.communicator,
            training_.copy,
            training_.copies,
            training_.abort,
            training_.settings.logical_batches,
            [this](std::size_t slot, std::uint32_t micro_batch) {
              batches_[slot].fill(training_.data, training_.order, training_.state.step,
                                  micro_batch);
              return batches_[slot].view();
            },
            [this](std::size_t slot, std::uint32_t micro_batch) {
              batches_[slot].fill_for_validation(training_.data, training_.order, micro_batch);
              return batches_[slot].view();
            },
            [this](std::string_view phase) { training_.observer.entered(phase); }};
  }

  /// The gradient is in the engine, summed over all ranks; the squares are this rank's part.
  void compute_gradients(ExactSum& losses, ExactSum& squares) {
    const auto computed = engine_->compute(losses);
    waited_ += engine_->waited();
    if (!computed) return fail_computing(computed.error());
    if (engine_->counts()) add_squares(training_.placement.kept(), engine_->gradients(), squares);
  }

  /// One small message per step carries the loss and every request, so that all ranks act at the
  /// same boundary.
  Agreement agree(const ExactSum& losses, const ExactSum& squares) {
    const auto requests = training_.mailbox.requests();
    comm::Scalars mine;
    for (const auto* sum : {&losses, &squares}) {
      const auto limbs = sum->limbs();
      mine.sums.insert(mine.sums.end(), limbs.begin(), limbs.end());
    }
    mine.any_flags = (requests.checkpoint ? kCheckpointBit : 0) | (requests.stop ? kStopBit : 0) |
                     (requests.stop_checkpoint ? kStopCheckpointBit : 0) |
                     (losses.is_finite() ? 0 : kBadLossBit) |
                     (squares.is_finite() ? 0 : kBadGradientBit);
    const auto begun = trainer_now();
    const auto all = training_.communicator.all_reduce_scalars(mine);
    waited_ += trainer_now() - begun;
    if (!all) {
      fail(all.error());
      return {};
    }
    const auto total = [&](std::size_t index) {
      return ExactSum::value_of(
          std::span(all->sums).subspan(index * ExactSum::kLimbs).first<ExactSum::kLimbs>());
    };
    const double share = 1.0 / training_.settings.logical_batches;  // a power of two: exact
    const auto asked = [&](std::uint64_t bit) { return (all->any_flags & bit) != 0; };
    check_numbers(asked(kBadLossBit), asked(kBadGradientBit));
    return {total(0) * share, std::sqrt(total(1)) * share, asked(kCheckpointBit), asked(kStopBit),
            asked(kStopCheckpointBit)};
  }

  /// All ranks see it in the same step, before the optimizer.
  void check_numbers(bool bad_loss, bool bad_gradient) {
    if (!bad_loss && !bad_gradient) return;
    fail(Failed{FailingCategory::bad_numbers,
                "step " + std::to_string(training_.state.step + 1) + ": the " +
                    (bad_loss ? "loss" : "gradient") +
                    " is no finite number; a lower learning_rate or a longer warmup_steps is "
                    "the usual cure"});
  }

  /// Waits for nothing and ignores aborts: the state is never left half changed.
  void take_step(const Agreement& agreed) {
    auto& state = training_.state;
    const auto& settings = training_.settings;
    const double share = 1.0 / settings.logical_batches;
    training_.observer.entered("optimizer");
    adamw_step(training_.placement.kept(),
               {state.values.values(), state.moments.values(), state.second_moments.values()},
               engine_->gradients(), share * clip_factor(agreed.norm, settings.clip), settings,
               learning_rate_at(settings, state.step), state.step + 1);
    ++state.step;
  }

  [[nodiscard]] bool is_validation_due(std::uint64_t step) const {
    const auto every = training_.settings.validate_every_steps;
    return every > 0 && (step % every == 0 || step == training_.settings.steps);
  }

  /// Between steps: no step depends on it, and its loss has the same bits at any number of ranks.
  void validate() {
    training_.observer.entered("validate");
    const auto micro_batches = training_.order.validation_batches();
    ExactSum losses;
    const auto done = engine_->validate(micro_batches, losses);
    if (!done) return fail_computing(done.error());
    const auto limbs = losses.limbs();
    comm::Scalars mine;
    mine.sums.assign(limbs.begin(), limbs.end());
    mine.any_flags = losses.is_finite() ? 0 : kBadLossBit;
    const auto all = training_.communicator.all_reduce_scalars(mine);
    if (!all) return static_cast<void>(fail(all.error()));
    const auto total = ExactSum::value_of(std::span(all->sums).first<ExactSum::kLimbs>());
    const bool good = (all->any_flags & kBadLossBit) == 0;
    training_.observer.validated(
        training_.state.step,
        good ? total / micro_batches : std::numeric_limits<double>::quiet_NaN());
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
  void fail_computing(const EngineTrouble& trouble) {
    std::visit(Overloaded{[&](const comm::CommFailure& failure) { fail(failure); },
                          [&](const Error& error) { fail_alone(error); },
                          [&](const Aborted&) { fail(leave()); }},
               trouble);
  }
  double fail(const Error& error) {
    const bool memory = error.code == std::errc::not_enough_memory;
    return fail(Failed{memory ? FailingCategory::out_of_memory : FailingCategory::user_error,
                       error.text(), error.code == std::errc::io_error});
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
  std::vector<BatchBuffer> batches_;  ///< per slot
  std::unique_ptr<GradientEngine> engine_;
  nanoseconds waited_{0};
  std::optional<Outcome> failed_;
};

}  // namespace

Outcome train(Training& training) { return Loop(training).run(); }

}  // namespace dlaunch::trainer
