// Words for a POSIX shell.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::launcher::launch {

/// One word, whatever is in it.
[[nodiscard]] std::string shell_quoted(std::string_view text);
/// The same for a path; "~/x" means the home directory there, not here.
[[nodiscard]] std::string shell_quoted_path(std::string_view path);

}  // namespace dlaunch::launcher::launch
