// A keyed permutation (Feistel network, walked until it lands in range) of the training windows.
#include "trainer/data/order.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {

namespace {
constexpr std::uint32_t kRounds = 4;
}

DataOrder::DataOrder(const TrainerSettings& settings, std::uint64_t tokens)
    : seed_(mix(settings.seed)),
      context_(settings.model.context),
      logical_batches_(settings.logical_batches),
      micro_batch_(settings.micro_batch),
      split_((tokens - 1) / context_, settings.data.validation_per_mille),
      half_bits_((static_cast<std::uint32_t>(std::bit_width(windows())) + 1) / 2) {
  DL_CHECK(tokens > context_ && windows() > 0, "the data hold at least one window");
}

std::uint64_t DataOrder::first_token(std::uint64_t step, std::uint32_t micro_batch,
                                     std::uint32_t sequence) const {
  const std::uint64_t dealt = (step * logical_batches_ + micro_batch) * micro_batch_ + sequence;
  return split_.training_window(shuffled(dealt / windows(), dealt % windows())) * context_;
}

std::uint64_t DataOrder::shuffled(std::uint64_t pass, std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // A permutation of 4^half_bits numbers, at most four times too many: a few walks on average.
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t scrambled = mix(seed_ ^ mix(pass * kRounds + round) ^ right) & mask;
      left = std::exchange(right, left ^ scrambled);
    }
    index = left << half_bits_ | right;
  } while (index >= windows());
  return index;
}

std::uint32_t DataOrder::validation_batches() const {
  const std::uint64_t most = std::uint64_t{logical_batches_} * kValidationPerStep;
  return static_cast<std::uint32_t>(std::min(most, validation_windows() / micro_batch_));
}

std::uint64_t DataOrder::first_validation_token(std::uint32_t micro_batch,
                                                std::uint32_t sequence) const {
  const std::uint64_t all = std::uint64_t{validation_batches()} * micro_batch_;
  const std::uint64_t number = std::uint64_t{micro_batch} * micro_batch_ + sequence;
  const std::uint64_t spread =
      number * (validation_windows() / all) + number * (validation_windows() % all) / all;
  return split_.validation_window(spread) * context_;
}

}  // namespace dlaunch::trainer
