// The checkpoint directory that all simulated hosts see.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "protocol/agent_wire.pb.h"

namespace dlaunch::simulation {

/// Complete checkpoints, and the files of those that are being written. Remembers which generation
/// published each, so that the world can check that only the newest one ever does.
class Storage {
 public:
  void write(std::uint64_t generation, std::uint64_t step, const std::string& file) {
    partial_[{generation, step}].insert(file);
  }
  /// The rename; an error sentence when files are missing or the generation is too old.
  [[nodiscard]] std::string commit(std::uint64_t generation, const protocol::Commit& order);
  [[nodiscard]] protocol::CheckpointsFound inspect() const;
  [[nodiscard]] std::uint64_t newest_step() const {
    return steps_.empty() ? 0 : steps_.rbegin()->first;
  }
  [[nodiscard]] std::uint64_t newest_publisher() const { return newest_publisher_; }

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::string>> partial_;
  std::map<std::uint64_t, std::uint32_t> steps_;  ///< step → world size
  std::uint64_t newest_publisher_ = 0;
};

}  // namespace dlaunch::simulation
