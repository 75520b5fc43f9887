// How many descriptors this process may have.
#pragma once

namespace dlaunch {

/// As many as the system lets it: a connection each to thousands of agents or ranks is more than
/// the 1,024 of most logins. Where that is refused the old limit stays.
void allow_many_descriptors();

}  // namespace dlaunch
