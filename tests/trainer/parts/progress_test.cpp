#include "trainer/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::trainer {
namespace {

TEST(Progress, ALineIsReadByPeople) {
  EXPECT_EQ(step_line(12, 2000, 3.40961, 41234.5), "step 12/2000  loss 3.41  tokens/s 41234");
}

TEST(Progress, LinesComeForTheFirstAndTheLastStepAndAtMostOnceASecond) {
  TrainerSettings settings;
  settings.steps = 10;
  settings.logical_batches = 1;
  settings.micro_batch = 1;
  settings.model.context = 100;
  std::vector<std::string> lines;
  std::vector<protocol::worker::Progress> told;
  int asked = 0;
  const Gauges gauges{1e9,
                      [] {
                        return MemoryUse{1 << 20, 1 << 21};
                      },
                      [&] {
                        ++asked;
                        return Rates{5e10, 1e11};
                      }};
  ProgressTeller teller(
      settings, 0, gauges, [&](const auto& progress) { told.push_back(progress); },
      [&](const std::string& line) { lines.push_back(line); });
  for (std::uint64_t step = 1; step <= 10; ++step) {
    teller.entered("forward");
    teller.completed({step, 2.5, 1.5, step == 10 ? 4 : 0.4, 0.1, {}, 640, 0.2});
  }
  EXPECT_THAT(lines, testing::ElementsAre(testing::StartsWith("step 1/10"),
                                          testing::StartsWith("step 4/10  loss 2.5  tokens/s 250"),
                                          testing::StartsWith("step 7/10"),
                                          testing::StartsWith("step 10/10")));
  EXPECT_EQ(told.size(), 20u);
  EXPECT_EQ(told[2].step, Step{1}) << "the phase of the next step keeps the last one's numbers";
  EXPECT_EQ(told[2].loss, 2.5);
  EXPECT_EQ(told[3].tokens, 100u);
  EXPECT_EQ(told[3].waiting, 0.1);
  EXPECT_EQ(told[3].figures.gradient_norm, 1.5);
  EXPECT_EQ(told[3].figures.bytes_sent, 640u);
  EXPECT_EQ(told[3].figures.collective_seconds, 0.2);
  EXPECT_EQ(told[3].figures.memory_peak_bytes, 1u << 21);
  EXPECT_EQ(told[3].figures.gemm_flops_per_second, 0) << "not before the first steps are done";
  EXPECT_EQ(told[5].figures.gemm_flops_per_second, 5e10);
  EXPECT_EQ(told.back().figures.seconds_p50, 0.4);
  EXPECT_EQ(told.back().figures.seconds_p95, 4);
  EXPECT_EQ(asked, 1);
}

TEST(Progress, TheNewestValidationStaysBesideTheSteps) {
  TrainerSettings settings;
  settings.steps = 10;
  std::vector<std::string> lines;
  std::vector<protocol::worker::Progress> told;
  ProgressTeller teller(
      settings, 0, {0, [] { return MemoryUse{}; }, [] { return Rates{}; }},
      [&](const auto& progress) { told.push_back(progress); },
      [&](const std::string& line) { lines.push_back(line); });
  teller.completed({4, 2.5, 1, 0.4, 0.1, {}, 0, 0});
  EXPECT_EQ(told.back().figures.validation_loss, std::nullopt);
  teller.validated(4, 2.75);
  teller.completed({5, 2.25, 1, 0.4, 0.1, {}, 0, 0});
  EXPECT_EQ(lines.at(1), "step 4/10  validation loss 2.75");
  EXPECT_EQ(told.back().step, Step{5});
  EXPECT_EQ(told.back().figures.validation_loss, 2.75);
  EXPECT_EQ(told.back().figures.validation_step, 4u);
}

}  // namespace
}  // namespace dlaunch::trainer
