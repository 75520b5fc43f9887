#include "simulation/storage.h"

#include <algorithm>

namespace dlaunch::simulation {

std::string Storage::commit(std::uint64_t generation, const protocol::Commit& order) {
  if (generation < newest_publisher_) return "an older generation wants to publish";
  const auto& files = partial_[{generation, order.step()}];
  for (const auto& file : order.files()) {
    if (!files.contains(file.name())) return "the file " + file.name() + " is missing";
  }
  newest_publisher_ = generation;
  steps_[order.step()] = static_cast<std::uint32_t>(order.files_size());
  for (const auto step : order.delete_steps()) steps_.erase(step);
  std::erase_if(partial_, [&](const auto& entry) { return entry.first.first < generation; });
  return "";
}

protocol::CheckpointsFound Storage::inspect() const {
  protocol::CheckpointsFound found;
  for (const auto& [step, world_size] : steps_) {
    auto* fact = found.add_checkpoints();
    fact->set_step(step);
    fact->set_world_size(world_size);
    fact->set_config("{}");
    fact->set_data("{}");
  }
  return found;
}

}  // namespace dlaunch::simulation
