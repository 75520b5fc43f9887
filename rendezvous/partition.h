// When most hosts fall silent at once it is rather the controller that is cut off.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/time.h"

namespace dlaunch::rendezvous {

/// Of three or more hosts more than half silent: nobody is convicted for `grace`, and it is said.
class PartitionRule {
 public:
  explicit PartitionRule(nanoseconds grace) : grace_(grace) {}

  struct Verdict {
    bool convict = true;
    std::string sentence;  ///< not empty when the suspicion of ourselves begins
  };
  [[nodiscard]] Verdict judge(Instant now, std::size_t watched, std::size_t silent);
  void reset() { until_.reset(); }
  /// Set while nobody is convicted.
  [[nodiscard]] std::optional<Instant> until() const { return until_; }

 private:
  nanoseconds grace_;
  std::optional<Instant> until_;
};

}  // namespace dlaunch::rendezvous
