#include "supervisor/job/figures.h"

#include <gtest/gtest.h>

#include "supervisor/job/ranks.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr Instant kGo{1h};

class FiguresOf : public ::testing::Test {
 protected:
  void SetUp() override {
    rendezvous::Plan plan;
    plan.members = {{HostId{0}, Rank{0}, 1, ""}, {HostId{1}, Rank{1}, 1, ""}};
    ranks_.begin_generation(plan, kGo);
  }
  /// One whose steps take 2 s, of which it waits 1 s.
  static protocol::WorkerStatus status(std::uint32_t rank, std::uint64_t memory) {
    protocol::WorkerStatus status;
    status.set_rank(rank);
    status.set_step(8);
    status.set_step_seconds(2);
    status.set_waiting_seconds(1);
    auto& told = *status.mutable_figures();
    told.set_gradient_norm(0.5);
    told.set_step_seconds_p95(3);
    told.set_collective_seconds(0.5);
    told.set_bytes_sent(100);
    told.set_memory_bytes(memory / 2);
    told.set_memory_peak_bytes(memory);
    told.set_flops(4e9);
    told.set_gemm_flops_per_second(5e9);
    return status;
  }
  void tell(const protocol::WorkerStatus& status) {
    ranks_.heard(HostId{status.rank()}, status, kGo);
  }
  Ranks ranks_;
};

TEST_F(FiguresOf, NobodyAreUnknown) {
  const auto figures = figures_of(ranks_);
  EXPECT_FALSE(figures.gradient_norm);
  EXPECT_FALSE(figures.gemm_utilization);
  EXPECT_EQ(figures.memory_peak_bytes, 0U);
}

TEST_F(FiguresOf, AllAreSumsMeansAndExtremes) {
  tell(status(0, 1000));
  auto slower = status(1, 900);
  slower.set_waiting_seconds(0);
  slower.mutable_figures()->set_collective_seconds(0.25);
  tell(slower);
  const auto figures = figures_of(ranks_);
  EXPECT_EQ(figures.gradient_norm, 0.5);
  EXPECT_EQ(figures.step_seconds_p95, 3);
  EXPECT_EQ(figures.waiting_seconds, 0.5);
  EXPECT_EQ(figures.bus_bytes_per_second, (200.0 + 400.0) / 2);
  EXPECT_EQ(figures.bytes_sent, 200U);
  EXPECT_EQ(figures.flops_per_second, 8e9 / 2);
  EXPECT_EQ(figures.gemm_utilization, 4e9 / 10e9);
  EXPECT_FALSE(figures.peak_utilization) << "nobody knows it";
  EXPECT_EQ(figures.memory_bytes, 500U);
  EXPECT_EQ(figures.memory_peak_bytes, 1000U);
  EXPECT_DOUBLE_EQ(figures.memory_imbalance, 0.1);
}

TEST_F(FiguresOf, SomeGiveNoShareOfAll) {
  tell(status(0, 1000));
  auto unmeasured = status(1, 1000);
  unmeasured.mutable_figures()->clear_gemm_flops_per_second();
  tell(unmeasured);
  EXPECT_FALSE(figures_of(ranks_).gemm_utilization);
}

}  // namespace
}  // namespace dlaunch::supervisor::job
