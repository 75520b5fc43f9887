// What must hold on a device, one check a line; also run on a stand-in for it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dlaunch::comm {

/// Empty: it holds. Otherwise what was seen instead.
using Problem = std::string;

struct Check {
  std::string name;  ///< a sentence
  std::function<Problem()> run;
};

/// In the order in which they should run: what others rest on comes first.
[[nodiscard]] std::vector<Check> all_checks();
/// Collectives and copies of one rank.
[[nodiscard]] std::vector<Check> result_checks();
/// How what is under way ends.
[[nodiscard]] std::vector<Check> ending_checks();

}  // namespace dlaunch::comm
