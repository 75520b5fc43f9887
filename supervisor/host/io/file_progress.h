// A program's progress as its checkpoint files show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlaunch::supervisor::host {

/// `pattern` is absolute, with * ? [] in any component. The highest number that stands in a
/// matching path at or behind the first wildcard, or how many paths match when none has a number.
/// nullopt: nothing matches. Blocks for as long as the file system needs.
[[nodiscard]] std::optional<std::uint64_t> newest_checkpoint(const std::string& pattern);

}  // namespace dlaunch::supervisor::host
