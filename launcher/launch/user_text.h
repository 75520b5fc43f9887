// Every sentence a user can meet when a host cannot be planted: what, where, likely cause, next
// step.
#pragma once

#include <string>

#include "base/time.h"
#include "launcher/launch/cause.h"

namespace dlaunch::launcher::launch {

/// What is known of the host when it fails; what is empty is left out.
struct Where {
  std::string host;     ///< as in the hosts file
  std::string address;  ///< what was dialled
  int port = 22;
  std::string user;
  std::string scratch;  ///< the directory that was tried
  std::string detail;   ///< the library's or the remote shell's own words
  nanoseconds waited{};
};

/// One line without a newline at its end.
[[nodiscard]] std::string sentence(Cause cause, const Where& where);

}  // namespace dlaunch::launcher::launch
