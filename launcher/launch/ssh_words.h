// What the OpenSSH client says when it cannot serve, as a cause.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/launch/cause.h"

namespace dlaunch::launcher::launch {

/// nullopt: none of its known sentences is in `errors`.
[[nodiscard]] std::optional<Cause> cause_in(std::string_view errors);

/// What `ssh -G` printed wants something of libssh that it has not got, in words for the user;
/// empty: nothing of the kind.
[[nodiscard]] std::string beyond_libssh(std::string_view settings);

}  // namespace dlaunch::launcher::launch
