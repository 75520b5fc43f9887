// Each token's target is the one after it.
#include "trainer/data/batch.h"

#include <span>

namespace dlaunch::trainer {

BatchBuffer::BatchBuffer(const TrainerSettings& settings)
    : sequences_(settings.micro_batch),
      context_(settings.model.context),
      inputs_(std::size_t{sequences_} * context_),
      targets_(inputs_.size()) {}

void BatchBuffer::fill(const TokenView& data, const DataOrder& order, std::uint64_t step,
                       std::uint32_t micro_batch) {
  for (std::uint32_t sequence = 0; sequence < sequences_; ++sequence) {
    copy_window(data, order.first_token(step, micro_batch, sequence), sequence);
  }
}

void BatchBuffer::fill_for_validation(const TokenView& data, const DataOrder& order,
                                      std::uint32_t micro_batch) {
  for (std::uint32_t sequence = 0; sequence < sequences_; ++sequence) {
    copy_window(data, order.first_validation_token(micro_batch, sequence), sequence);
  }
}

void BatchBuffer::copy_window(const TokenView& data, std::uint64_t first, std::uint32_t sequence) {
  const auto place = std::size_t{sequence} * context_;
  data.copy(first, std::span(inputs_).subspan(place, context_));
  data.copy(first + 1, std::span(targets_).subspan(place, context_));
}

}  // namespace dlaunch::trainer
