#include "trainer/io/machine.h"

#include <gtest/gtest.h>

#include <vector>

#include "trainer/step_times.h"

namespace dlaunch::trainer {
namespace {

TEST(Machine, MemoryIsThatOfThisProcess) {
  const auto before = memory_use();
  EXPECT_GT(before.now, 0U);
  EXPECT_GE(before.peak, before.now);
  constexpr std::size_t kBytes = 64 << 20;
  {
    const std::vector<char> used(kBytes, 1);
    EXPECT_GE(memory_use().now, before.now + kBytes / 2) << used.back();
  }
  EXPECT_GE(memory_use().peak, before.now + kBytes / 2) << "a peak stays";
}

TEST(Machine, ACoreDoesWhatItsVectorsHold) {
  EXPECT_EQ(flops_per_cycle("fpu sse2 avx fma avx2 bmi2"), 32);
  EXPECT_EQ(flops_per_cycle("avx2 fma avx512f avx512dq"), 64);
  EXPECT_EQ(flops_per_cycle("avx avx512_bf16 fma4"), 0) << "words are whole";
}

TEST(StepTimes, APercentileIsOneOfTheTimes) {
  StepTimes times;
  EXPECT_EQ(times.percentile(0.5), 0);
  for (int i = 1; i <= 20; ++i) times.add(i);
  EXPECT_EQ(times.percentile(0.5), 10);
  EXPECT_EQ(times.percentile(0.95), 19);
  EXPECT_EQ(times.percentile(1), 20);
  for (int i = 0; i < 100; ++i) times.add(3);
  EXPECT_EQ(times.percentile(1), 3) << "only the recent ones count";
}

}  // namespace
}  // namespace dlaunch::trainer
