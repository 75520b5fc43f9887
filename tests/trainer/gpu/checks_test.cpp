#include "tests/trainer/gpu/checks.h"

#include <gtest/gtest.h>

#include "tests/trainer/gpu/stand_in_nccl.h"

namespace dlaunch::comm {
namespace {

TEST(GpuChecks, HoldOnTheStandIn) {
  for (const Check& check : all_checks()) EXPECT_EQ(check.run(), "") << check.name;
  EXPECT_EQ(aborts_one_by_one(), 0);
}

}  // namespace
}  // namespace dlaunch::comm
