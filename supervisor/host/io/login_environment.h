// What a login on this host sets: the environment of its user's login shell.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace dlaunch::supervisor::host {

/// Asks the user's login shell, which reads his profile, at most `limit` long. `program`: this
/// binary's path, which the shell runs. Without what only a shell cares for (PWD, SHLVL). Blocks;
/// an error says what became of the shell.
[[nodiscard]] Result<std::map<std::string, std::string>> login_environment(
    const std::string& program, nanoseconds limit);

/// What the shell runs there: prints the environment, marked. Returns the exit code.
int print_environment();

}  // namespace dlaunch::supervisor::host
