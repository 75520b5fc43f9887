// Buckets of the flat gradient, folded as micro-batches complete and reduced in a fixed order.
#include "trainer/parallel/gradient_reducer.h"

#include "base/check.h"

namespace dlaunch::trainer {

GradientReducer::GradientReducer(const ParameterLayout& layout, comm::Communicator& communicator,
                                 std::size_t bucket_values)
    : communicator_(communicator), gradients_(layout.count), bucket_of_(layout.parameters.size()) {
  // The backward pass completes gradients from the last parameter to the first.
  std::size_t end = layout.count;
  std::uint32_t parameters = 0;
  for (std::size_t i = layout.parameters.size(); i-- > 0;) {
    const auto& parameter = layout.parameters[i];
    bucket_of_[i] = buckets_.size();
    ++parameters;
    if (end - parameter.first >= bucket_values || i == 0) {
      const std::size_t count = end - parameter.first;
      buckets_.push_back({parameter.first, count, parameters, 0, comm::TreeFold(count), {}});
      end = parameter.first;
      parameters = 0;
    }
  }
}

GradientReducer::~GradientReducer() {
  for (const auto& bucket : buckets_) {
    if (bucket.ticket) static_cast<void>(communicator_.wait(*bucket.ticket));
  }
}

void GradientReducer::begin_step(std::uint32_t micro_batches) {
  micro_batches_ = micro_batches;
  next_to_start_ = 0;
  for (auto& bucket : buckets_) {
    bucket.missing = bucket.parameters;
    bucket.fold.reset();
    bucket.ticket.reset();
  }
}

void GradientReducer::on_ready(std::size_t parameter) {
  auto& bucket = buckets_[bucket_of_[parameter]];
  DL_CHECK(bucket.missing > 0, "each gradient is ready once per micro-batch");
  if (--bucket.missing == 0) fold(bucket);
}

void GradientReducer::fold(Bucket& bucket) {
  if (bucket.fold.leaves() + 1 < micro_batches_) {
    bucket.fold.add(values_of(bucket));
    bucket.missing = bucket.parameters;
  } else {
    bucket.fold.finish(values_of(bucket));
    start_in_order();
  }
}

std::span<float> GradientReducer::values_of(const Bucket& bucket) {
  return gradients().subspan(bucket.first, bucket.count);
}

void GradientReducer::start_in_order() {
  // Ranks must start the same operations in the same order, whatever order gradients come in.
  while (next_to_start_ < buckets_.size() && !failure_) {
    auto& bucket = buckets_[next_to_start_];
    if (bucket.fold.leaves() < micro_batches_) return;
    const auto ticket = communicator_.start_all_reduce(values_of(bucket));
    if (!ticket) {
      failure_ = ticket.error();
      return;
    }
    bucket.ticket = *ticket;
    ++next_to_start_;
  }
}

comm::CommResult<void> GradientReducer::finish() {
  if (failure_) return tl::unexpected(*failure_);
  DL_CHECK(next_to_start_ == buckets_.size(), "all micro-batches of the step were added");
  for (auto& bucket : buckets_) {
    if (const auto done = communicator_.wait(*bucket.ticket); !done) {
      failure_ = done.error();
      return done;
    }
  }
  return {};
}

}  // namespace dlaunch::trainer
