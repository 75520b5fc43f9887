#include "trainer/parallel/data_parallel.h"

#include <utility>

#include "trainer/io/clock.h"

namespace dlaunch::trainer {

DataParallel::DataParallel(EngineHands hands)
    : hands_(std::move(hands)),
      mine_(comm::micro_batches_of_rank(hands_.logical_batches, hands_.communicator.world_size(),
                                        hands_.communicator.rank())),
      reducer_(hands_.layout, hands_.communicator) {}

EngineResult<void> DataParallel::compute(ExactSum& losses) {
  reducer_.begin_step(mine_.count);
  announce_values();
  for (std::uint32_t i = 0; i < mine_.count; ++i) {
    const auto batch = hands_.batch(0, mine_.first + i);
    hands_.entered("forward");
    const auto loss = hands_.model.forward(batch);
    if (!loss) return tl::unexpected<EngineTrouble>(loss.error());
    losses.add(*loss);
    if (hands_.abort.is_set()) return tl::unexpected<EngineTrouble>(Aborted{});
    hands_.entered("backward");
    const auto done = hands_.model.backward(
        reducer_.gradients(), [this](std::size_t parameter) { reducer_.on_ready(parameter); });
    if (!done) return tl::unexpected<EngineTrouble>(done.error());
    if (hands_.abort.is_set()) return tl::unexpected<EngineTrouble>(Aborted{});
  }
  hands_.entered("reduce");
  const auto begun = trainer_now();
  const auto reduced = reducer_.finish();
  waited_ = trainer_now() - begun;
  if (!reduced) return tl::unexpected<EngineTrouble>(reduced.error());
  stale_ = true;
  return {};
}

void DataParallel::announce_values() {
  if (!std::exchange(stale_, false)) return;
  for (std::size_t unit = 0; unit < hands_.layout.units.size(); ++unit) {
    hands_.model.values_changed(unit);
  }
}

EngineResult<void> DataParallel::validate(std::uint32_t micro_batches, ExactSum& losses) {
  announce_values();
  const auto ranks = hands_.communicator.world_size();
  for (auto i = hands_.communicator.rank().value; i < micro_batches; i += ranks) {
    if (hands_.abort.is_set()) return tl::unexpected<EngineTrouble>(Aborted{});
    const auto loss = hands_.model.evaluate(hands_.validation_batch(0, i));
    if (!loss) return tl::unexpected<EngineTrouble>(loss.error());
    losses.add(*loss);
  }
  return {};
}

}  // namespace dlaunch::trainer
