// Files beside run.db: the tails of the workers' output, and the status where run.db is no other
// process's to read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "launcher/controller/output_tail.h"

namespace dlaunch::launcher::controller {

/// The shared memory of SQLite's write-ahead log does not work between machines. Known by the file
/// system's magic number; DLAUNCH_NETWORK_STATE=1 (or 0) in the environment says it where the
/// number does not.
[[nodiscard]] bool is_on_network(const std::string& directory);

/// `status.json`, replaced as a whole.
[[nodiscard]] Result<void> write_status_snapshot(const std::string& directory,
                                                 const std::string& json);
/// nullopt: there is none.
[[nodiscard]] std::optional<std::string> read_status_snapshot(const std::string& directory);

// Older ones go first, but never the oldest: that of the first failure.
constexpr std::size_t kOutputGenerationsMax = 8;
constexpr std::size_t kOutputBytesMax = 256 * 1024 * 1024;

/// `output/generation-<g>.jsonl`: one `output` line of the control socket each (docs/protocol.md).
[[nodiscard]] Result<void> write_output(const std::string& directory, Generation generation,
                                        const std::vector<OutputPiece>& pieces);
/// Oldest first.
[[nodiscard]] std::vector<Generation> output_generations(const std::string& directory);
[[nodiscard]] std::string output_path(const std::string& directory, Generation generation);

}  // namespace dlaunch::launcher::controller
