#include "launcher/cli/job_id.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::cli {
namespace {

TEST(JobId, HoldsTheNameAndGivesItBack) {
  const auto id = make_job_id("kjv-gpt", "20261130-054512", 0x1f);
  EXPECT_EQ(id, "kjv-gpt-20261130-054512-001f");
  EXPECT_EQ(name_of(id), "kjv-gpt");
  for (const auto* other :
       {"", "kjv", "-20261130-054512-001f", "lost+found", "a-2026-054512-001f"}) {
    EXPECT_EQ(name_of(other), std::nullopt) << other;
  }
}

TEST(JobId, SortsByTheTimeOfTheStartAndNotByTheName) {
  std::vector<std::string> ids = {"a-20261130-070000-0000", "b-20261130-054512-0001"};
  sort_by_age(ids);
  EXPECT_EQ(ids.front(), "b-20261130-054512-0001");
}

TEST(FindJob, PrefersTheExactIdThenTheNewestOfTheName) {
  const std::vector<std::string> ids = {"a-20261130-054512-0001", "a-20261130-060000-0000",
                                        "b-20261130-070000-0000", "junk"};
  EXPECT_EQ(find_job(ids, "a-20261130-054512-0001"), ids[0]);
  EXPECT_EQ(find_job(ids, "a"), ids[1]);
  EXPECT_EQ(find_job(ids, ""), ids[2]);
  EXPECT_EQ(find_job(ids, "c"), std::nullopt);
  EXPECT_EQ(find_job({}, ""), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::launcher::cli
