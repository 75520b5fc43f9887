#include "tests/trainer/gpu/checks.h"

namespace dlaunch::comm {

std::vector<Check> all_checks() {
  std::vector<Check> checks = result_checks();
  for (Check& check : ending_checks()) checks.push_back(std::move(check));
  return checks;
}

}  // namespace dlaunch::comm
