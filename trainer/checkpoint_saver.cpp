// Names the state's tensors and hands them to the shard writer.
#include "trainer/checkpoint_saver.h"

#include <string>
#include <utility>

#include "trainer/checkpoint/layout.h"

namespace dlaunch::trainer {

namespace {

checkpoint::TensorSpec spec_of(const Parameter& parameter, const char* prefix) {
  return {prefix + parameter.name, checkpoint::Dtype::f32, parameter.shape};
}

}  // namespace

std::vector<checkpoint::TensorView> views_of(const ParameterLayout& layout,
                                             const TrainingState& state) {
  std::vector<checkpoint::TensorView> views;
  for (const auto& parameter : layout.parameters) {
    const auto add = [&](const char* prefix, const FlatArray& flat) {
      views.push_back({spec_of(parameter, prefix), parameter.first_row, parameter.rows,
                       std::as_bytes(flat.values().subspan(parameter.first, parameter.count))});
    };
    add("", state.values);
    add(checkpoint::kMomentPrefix, state.moments);
    add(checkpoint::kSecondMomentPrefix, state.second_moments);
  }
  return views;
}

std::vector<checkpoint::TensorDestination> destinations_in(const ParameterLayout& layout,
                                                           TrainingState& state) {
  std::vector<checkpoint::TensorDestination> destinations;
  for (const auto& parameter : layout.parameters) {
    const auto add = [&](const char* prefix, FlatArray& flat) {
      destinations.push_back(
          {spec_of(parameter, prefix), parameter.first_row, parameter.rows,
           std::as_writable_bytes(flat.values().subspan(parameter.first, parameter.count))});
    };
    add("", state.values);
    add(checkpoint::kMomentPrefix, state.moments);
    add(checkpoint::kSecondMomentPrefix, state.second_moments);
  }
  return destinations;
}

CheckpointSaver::CheckpointSaver(const ParameterLayout& layout, checkpoint::SaveRequest request,
                                 std::optional<std::uint64_t> restored, Written written)
    : layout_(layout),
      request_(std::move(request)),
      newest_(restored),
      written_(std::move(written)) {}

Result<void> CheckpointSaver::start(const TrainingState& state) {
  if (const auto done = finish(); !done) return done;
  request_.step = Step{state.step};
  newest_ = state.step;
  return writer_.start(request_, views_of(layout_, state),
                       [this](Result<checkpoint::ShardReport> report) {
                         if (report) return written_(*report);
                         const std::lock_guard lock(mutex_);
                         trouble_ = report.error();
                       });
}

Result<void> CheckpointSaver::finish() {
  if (!writer_.wait_idle(kSaveLimit)) {
    return failure(std::errc::timed_out, "writing a checkpoint in " + request_.directory.string());
  }
  return trouble();
}

Result<void> CheckpointSaver::trouble() const {
  const std::lock_guard lock(mutex_);
  if (trouble_) return tl::unexpected(*trouble_);
  return {};
}

}  // namespace dlaunch::trainer
