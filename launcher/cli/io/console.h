// What every command says in the same way.
#pragma once

#include <optional>
#include <string>

#include "launcher/cli/io/job_directory.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::cli {

/// For a command without a name, where there is nothing to name.
constexpr const char* kNoJob = "there is no job of this user on this machine";

/// Prints "dlaunch: …" to stderr and returns the code.
int complain(int code, const std::string& sentence);
int complain(supervisor::job::ExitCode code, const std::string& sentence);

/// To stdout. False: nobody reads it any more.
[[nodiscard]] bool print(const std::string& text);

/// `wanted`: a name or id, or empty. nullopt: a sentence was printed and `code` is set.
[[nodiscard]] std::optional<JobDirectory> find_or_complain(const std::string& wanted, int& code);

}  // namespace dlaunch::launcher::cli
