// A tiny model and a text for runs of real trainer processes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/base/io/temporary_directory.h"
#include "tests/trainer/checkpoint/plain_files.h"
#include "tests/trainer/worker/fake_agent.h"

namespace dlaunch::trainer {

class WorkerTest : public testing::Test {
 protected:
  /// Two layers that learn something in a dozen steps.
  [[nodiscard]] nlohmann::json settings(std::uint64_t steps = 12) const {
    return {{"strategy", "ddp"},
            {"steps", steps},
            {"logical_batches", 8},
            {"micro_batch", 2},
            {"learning_rate", 1e-2},
            {"seed", 7},
            {"warmup_steps", 3},
            {"weight_decay", 0.1},
            {"clip", 1.0},
            {"betas", {0.9, 0.95}},
            {"model", {{"layers", 2}, {"width", 32}, {"heads", 4}, {"context", 16}}},
            {"data", {{"text", text().string()}}},
            {"checkpoint_every_steps", 0},
            {"threads", 1}};
  }
  [[nodiscard]] std::filesystem::path text() const { return directory_.path() / "text.txt"; }

  void SetUp() override {
    std::string content;
    for (int i = 0; content.size() < 20'000; ++i) {
      content += "In the beginning was the word number " + std::to_string(i * i % 97) + ".\n";
    }
    checkpoint::write_file(text(), content);
  }

  /// Tensors of the last step of an undisturbed run of one rank.
  [[nodiscard]] std::map<std::string, std::string> undisturbed(
      const nlohmann::json& trainer, std::uint64_t step, const std::string& name = "undisturbed") {
    auto job = make_job(trainer, name);
    job.run(1);
    job.commit(step);
    return job.tensors(step);
  }
  [[nodiscard]] FakeJob make_job(const nlohmann::json& trainer, const std::string& name = "job") {
    const auto place = directory_.path() / name;
    std::filesystem::create_directories(place);
    return FakeJob(place, trainer.dump());
  }

  TemporaryDirectory directory_;
};

/// Names the first tensor that differs, instead of printing all of them.
inline void expect_same_bytes(const std::map<std::string, std::string>& tensors,
                              const std::map<std::string, std::string>& expected) {
  ASSERT_EQ(tensors.size(), expected.size());
  ASSERT_FALSE(tensors.empty());
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    ASSERT_TRUE(tensors.at(name) == bytes) << "the bytes of " << name << " differ";
  }
}

}  // namespace dlaunch::trainer
