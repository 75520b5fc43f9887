// The checkpoint directory as one agent reads and changes it, on the controller's order only.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

/// Completes `step-N.g<G>.partial` and gives it its final name: sizes checked, `files` added to the
/// manifest, rename, fsync. A target that exists is compared, never overwritten. Then deletes what
/// the order says, and what older generations left half written. Blocks; returns "" or the sentence
/// for the user.
[[nodiscard]] std::string commit_checkpoint(const std::string& directory, Generation generation,
                                            const protocol::Commit& order);

/// Leaves a note beside the shard that it is whole, for `inspect_checkpoints`. Blocks.
[[nodiscard]] Result<void> note_written(const std::string& directory, Generation generation,
                                        const protocol::Written& written);

/// Makes the directory where it is missing, proves that it can be written, takes its lock for `job`
/// (checkpoint_lock.h), gives those their final name of which every shard has its note, and lists
/// the complete checkpoints. Blocks.
[[nodiscard]] protocol::CheckpointsFound inspect_checkpoints(const std::string& directory,
                                                             const std::string& job,
                                                             nanoseconds stale_after);

/// Leaves an empty file of this name for the other hosts, and removes those of before; the lock
/// must be held. Blocks; returns "" or the sentence for the user.
[[nodiscard]] std::string leave_mark(const std::string& directory, const std::string& mark);
/// Empty when the mark is there: both hosts see the same directory. Blocks.
[[nodiscard]] std::string look_for_mark(const std::string& directory, const std::string& mark);

/// Removes what leave_mark left. Blocks.
void remove_marks(const std::string& directory);

}  // namespace dlaunch::supervisor::host
