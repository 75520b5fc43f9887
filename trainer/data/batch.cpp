// Bytes become tokens; each token's target is the byte after it.
#include "trainer/data/batch.h"

namespace dlaunch::trainer {

BatchBuffer::BatchBuffer(const TrainerSettings& settings)
    : sequences_(settings.micro_batch),
      context_(settings.model.context),
      inputs_(std::size_t{sequences_} * context_),
      targets_(inputs_.size()) {}

void BatchBuffer::fill(std::span<const std::byte> text, const DataOrder& order, std::uint64_t step,
                       std::uint32_t micro_batch) {
  std::size_t place = 0;
  for (std::uint32_t sequence = 0; sequence < sequences_; ++sequence) {
    const auto window =
        text.subspan(order.first_byte(step, micro_batch, sequence), context_ + 1ull);
    for (std::size_t i = 0; i < context_; ++i, ++place) {
      inputs_[place] = std::to_integer<std::int64_t>(window[i]);
      targets_[place] = std::to_integer<std::int64_t>(window[i + 1]);
    }
  }
}

}  // namespace dlaunch::trainer
