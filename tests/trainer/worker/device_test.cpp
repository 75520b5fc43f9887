// device = "cuda" in real trainer processes: what is said without a device, and with one that its
// results are right. What needs a device is skipped where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/trainer/worker/worker_fixture.h"

namespace dlaunch::trainer {
namespace {

namespace message = protocol::worker;
using message::FailingCategory;
using testing::HasSubstr;

bool has_driver() {
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/nvidia0");
}

class OnDevice : public WorkerTest {
 protected:
  nlohmann::json on(const char* device, std::uint64_t steps = 12) const {
    auto trainer = settings(steps);
    trainer["device"] = device;
    return trainer;
  }
  message::Failing failing_of(FakeJob& job) {
    job.start(1);
    job.send_assign(Generation{1});
    job.wait_until("it says what is wrong",
                   [&] { return job.worker(0).last<message::Failing>().has_value(); });
    job.wait_all_ended();
    return *job.worker(0).last<message::Failing>();
  }
};

TEST_F(OnDevice, AHostWithoutADriverIsAMistakeThatSaysWhatIsMissing) {
  if (has_driver()) GTEST_SKIP() << "this host has an NVIDIA driver";
  auto job = make_job(on("cuda"));
  const auto failing = failing_of(job);
  EXPECT_EQ(failing.category, FailingCategory::config_error);
  EXPECT_THAT(failing.reason, HasSubstr("[trainer] device = \"cuda\""));
  EXPECT_THAT(failing.reason, HasSubstr("this host has no NVIDIA driver that CUDA"));
  EXPECT_THAT(failing.reason, HasSubstr("or set device = \"cpu\""));
  EXPECT_EQ(job.worker(0).exit_code(), 1) << job.worker(0).output();
}

/// Where there is a device.
class WithDevice : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!has_driver()) GTEST_SKIP() << "SKIPPED, for this host has no NVIDIA device";
  }
  /// The loss of the last step, before it.
  double loss_of(const nlohmann::json& trainer, const std::string& name) {
    auto job = make_job(trainer, name);
    job.run(1);
    EXPECT_EQ(job.worker(0).exit_code(), 0) << job.worker(0).output();
    if (trainer["device"] == "cuda") {
      EXPECT_THAT(job.worker(0).output(), HasSubstr("device 0 of "));
    }
    const auto progress = job.worker(0).last<message::Progress>();
    EXPECT_TRUE(progress && progress->loss);
    return progress && progress->loss ? *progress->loss : std::nan("");
  }
  /// One rank's tensors after all steps; two ranks that share the device end with the same.
  void expect_same_bits(const nlohmann::json& trainer) {
    const auto expected = undisturbed(trainer, 12, "first");
    expect_same_bytes(undisturbed(trainer, 12, "second"), expected);
    for (const char* strategy : {"ddp", "fsdp"}) {
      SCOPED_TRACE(strategy);
      auto shared = trainer;
      shared["strategy"] = strategy;
      auto job = make_job(shared, strategy);
      job.run(2);
      job.commit(12);
      expect_same_bytes(job.tensors(12), expected);
    }
  }
};

TEST_F(WithDevice, TheLossIsThatOfTheCpu) {
  for (const auto& [precision, first, last] :
       {std::tuple{"fp32", 1e-5, 1e-3}, {"bf16", 5e-3, 3e-2}}) {
    for (const std::uint64_t steps : {1u, 12u}) {
      auto here = on("cpu", steps);
      auto there = on("cuda", steps);
      here["precision"] = there["precision"] = precision;
      const auto name = std::string(precision) + std::to_string(steps);
      const double expected = loss_of(here, name + "cpu");
      EXPECT_NEAR(loss_of(there, name + "cuda"), expected, (steps == 1 ? first : last) * expected)
          << name;
    }
  }
}

TEST_F(WithDevice, RunsAndNumbersOfRanksEndWithTheSameBits) { expect_same_bits(on("cuda")); }

TEST_F(WithDevice, RunsAndNumbersOfRanksEndWithTheSameBitsInBfloat16) {
  auto trainer = on("cuda");
  trainer["precision"] = "bf16";
  trainer["activation_checkpointing"] = true;
  expect_same_bits(trainer);
}

TEST_F(WithDevice, MemoryThatTheDeviceDoesNotHaveIsSaid) {
  checkpoint::write_file(text(), std::string(std::size_t{8} << 20, 'x'));
  auto trainer = on("cuda");
  trainer["micro_batch"] = 4096;
  trainer["model"] = {{"layers", 8}, {"width", 1024}, {"heads", 8}, {"context", 1024}};
  auto job = make_job(trainer);
  job.start(1);
  job.assign(Generation{1});
  job.go();
  job.wait_all_ended();
  const auto failing = job.worker(0).last<message::Failing>();
  ASSERT_TRUE(failing) << job.worker(0).output();
  EXPECT_EQ(failing->category, FailingCategory::out_of_memory) << failing->reason;
}

}  // namespace
}  // namespace dlaunch::trainer
