// Where this user's jobs keep their state on this machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace dlaunch::launcher::cli {

/// `$XDG_STATE_HOME/dlaunch`, else `~/.local/state/dlaunch`; not necessarily there.
[[nodiscard]] Result<std::string> state_root();

/// Ids of the jobs below `root`; none when it does not exist.
[[nodiscard]] Result<std::vector<std::string>> job_ids(const std::string& root);

/// Makes `<root>/<id>` with mode 0700 and its parents; an error when it exists.
[[nodiscard]] Result<std::string> make_state_directory(const std::string& root,
                                                       const std::string& id);

/// A new id for a job of this name, made now.
[[nodiscard]] std::string new_job_id(const std::string& name);

}  // namespace dlaunch::launcher::cli
