#include "trainer/comm/recorder.h"

#include "base/check.h"

namespace dlaunch::comm {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all-reduce";
    case Operation::scalars:
      return "scalar reduction";
    case Operation::broadcast:
      return "broadcast";
    case Operation::barrier:
      return "barrier";
    case Operation::reduce_scatter:
      return "reduce-scatter";
    case Operation::all_gather:
      return "all-gather";
    case Operation::all_to_all:
      return "all-to-all";
    case Operation::message:
      return "message";
    case Operation::comparison:
      return "comparison before operation";
    case Operation::share_memory:
      return "exchange of shared memory";
  }
  return "unknown operation";
}

void Recorder::enter(Instant now, const std::string& group, std::uint64_t sequence,
                     Operation operation, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (records_.size() == kRecordsMax) records_.pop_front();
  records_.push_back({group, sequence, operation, bytes, now, std::nullopt});
  ++entered_;
}

void Recorder::finish(Instant now) {
  const std::lock_guard lock(mutex_);
  DL_CHECK(!records_.empty(), "an operation is entered before it is done");
  records_.back().done = now;
  under_way_ += now - records_.back().entered;
}

double Recorder::seconds() const {
  const std::lock_guard lock(mutex_);
  return to_seconds(under_way_);
}

CollectiveState Recorder::state() const {
  const std::lock_guard lock(mutex_);
  CollectiveState state;
  state.recent.assign(records_.begin(), records_.end());
  state.sequence = entered_;
  if (!records_.empty()) {
    state.group = records_.back().group;
    state.entered = !records_.back().done.has_value();
  }
  return state;
}

}  // namespace dlaunch::comm
