// Remembers what this rank's collectives are doing, for the supervisor's hang finder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace dlaunch::comm {

enum class Operation : std::uint8_t {
  all_reduce = 1,
  scalars = 2,
  broadcast = 3,
  barrier = 4,
  reduce_scatter = 5,
  all_gather = 6,
};

/// "all-reduce", as it appears in sentences.
[[nodiscard]] const char* name_of(Operation operation);

struct CollectiveRecord {
  std::uint64_t sequence = 0;  ///< from 1; the same number is the same operation on every rank
  Operation operation{};
  std::uint64_t bytes = 0;
  Instant entered{};
  std::optional<Instant> done;  ///< empty: still in it
};

/// The newest operation and the last few before it, oldest first.
struct CollectiveState {
  std::string group;
  std::uint64_t sequence = 0;  ///< of the newest operation entered; 0: none yet
  bool entered = false;        ///< true: in it now; false: it is done
  std::vector<CollectiveRecord> recent;
};

/// Written by the communication thread, read by any.
class Recorder {
 public:
  explicit Recorder(std::string group) : group_(std::move(group)) {}

  void enter(Instant now, std::uint64_t sequence, Operation operation, std::uint64_t bytes);
  void finish(Instant now);
  [[nodiscard]] CollectiveState state() const;
  /// Seconds between entering and finishing, of all operations that are done.
  [[nodiscard]] double seconds() const;

 private:
  /// What an incident can use; a step of the built-in trainer has fewer.
  static constexpr std::size_t kRecordsMax = 32;

  mutable std::mutex mutex_;
  std::string group_;
  std::deque<CollectiveRecord> records_;
  nanoseconds under_way_{0};
};

}  // namespace dlaunch::comm
