// When most hosts fall silent at once it is rather the controller that is cut off.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "base/time.h"

namespace dlaunch::rendezvous {

/// Of three or more hosts more than half silent, and no other host confirms it on the data path:
/// nobody is convicted for `grace`, and it is said. Once less than that is silent again the others
/// have `readmit`, for their connections come back one by one.
class PartitionRule {
 public:
  PartitionRule(nanoseconds grace, nanoseconds readmit) : grace_(grace), readmit_(readmit) {}

  struct Verdict {
    bool convict = true;
    std::string sentence;  ///< not empty when the suspicion of ourselves begins or ends
  };
  /// `confirmed`: a host that is heard says of a silent one that it is silent there, too.
  [[nodiscard]] Verdict judge(Instant now, std::size_t watched, std::size_t silent, bool confirmed);
  void reset() { state_ = Connected{}; }
  /// Set while nobody is convicted.
  [[nodiscard]] std::optional<Instant> until() const;

 private:
  struct Connected {};
  struct CutOff {
    Instant until;
  };
  struct Readmitting {
    Instant until;
  };

  nanoseconds grace_;
  nanoseconds readmit_;
  std::variant<Connected, CutOff, Readmitting> state_;
};

}  // namespace dlaunch::rendezvous
