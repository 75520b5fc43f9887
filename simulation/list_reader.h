// Lists of endpoints, as the agents of a simulated cluster read them: once for all.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "base/ids.h"
#include "base/result.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/endpoints.h"

namespace dlaunch::simulation {

/// All agents are sent the same frame, which lists each of them. The first one that holds a certain
/// list and reads a certain frame does it for all that do so, and what comes to the same is the
/// same: thousands of lists of thousands of ranks become one.
class ListReader {
 public:
  using Frame = std::shared_ptr<const protocol::ControllerFrame>;

  /// `frame`: an Assign.
  [[nodiscard]] Result<protocol::SharedEndpoints> read(Generation generation, const Frame& frame,
                                                       const protocol::SharedEndpoints& held);

 private:
  static constexpr std::size_t kReadsKept =
      16;  // the newest frames, and what is held when they come

  struct Read {
    Generation generation;
    Frame frame;
    protocol::SharedEndpoints held;
    Result<protocol::SharedEndpoints> list;
  };
  std::deque<Read> reads_;
};

}  // namespace dlaunch::simulation
