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
  all_to_all = 7,
  message = 8,        ///< from one rank to one other
  comparison = 9,     ///< of what the ranks of a group are about to do
  share_memory = 10,  ///< while the mesh is connected
};
constexpr Operation kLastOperation = Operation::share_memory;

/// "all-reduce", as it appears in sentences.
[[nodiscard]] const char* name_of(Operation operation);

struct CollectiveRecord {
  std::string group;
  std::uint64_t sequence = 0;  ///< within the group, from 1, on each of its ranks the same
  Operation operation{};
  std::uint64_t bytes = 0;
  Instant entered{};
  std::optional<Instant> done;  ///< empty: still in it
};

/// The newest operation and the last few before it, oldest first, of all groups of a mesh.
struct CollectiveState {
  std::string group;  ///< of the newest operation
  /// Operations entered: the same number is the same place in the program on every rank.
  std::uint64_t sequence = 0;
  bool entered = false;  ///< true: in the newest now; false: it is done
  std::vector<CollectiveRecord> recent;
};

/// Written by one thread at a time, read by any.
class Recorder {
 public:
  void enter(Instant now, const std::string& group, std::uint64_t sequence, Operation operation,
             std::uint64_t bytes);
  void finish(Instant now);
  [[nodiscard]] CollectiveState state() const;
  /// Seconds between entering and finishing, of all operations that are done.
  [[nodiscard]] double seconds() const;

 private:
  /// What an incident can use; a step of the built-in trainer has fewer.
  static constexpr std::size_t kRecordsMax = 32;

  mutable std::mutex mutex_;
  std::uint64_t entered_ = 0;
  std::deque<CollectiveRecord> records_;
  nanoseconds under_way_{0};
};

}  // namespace dlaunch::comm
