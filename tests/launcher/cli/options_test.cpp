#include "launcher/cli/options.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::cli {
namespace {

template <class T>
T expect(std::vector<std::string> arguments) {
  auto options = parse_options(std::move(arguments));
  if (const auto* said = std::get_if<Said>(&options)) ADD_FAILURE() << said->text;
  return std::holds_alternative<T>(options) ? std::get<T>(options) : T{};
}

int code_of(std::vector<std::string> arguments) {
  const auto options = parse_options(std::move(arguments));
  const auto* said = std::get_if<Said>(&options);
  return said != nullptr ? said->code : -1;
}

TEST(Options, AFileNameAloneMeansRun) {
  const auto run = expect<RunOptions>({"--hostfile", "hosts.toml", "train.toml"});
  EXPECT_EQ(run.hostfile, "hosts.toml");
  EXPECT_EQ(run.train_file, "train.toml");
  EXPECT_EQ(expect<RunOptions>({"run", "train.toml", "--detach"}).train_file, "train.toml");
}

TEST(Options, OverridesMayBeRepeatedAndDoNotSwallowTheFile) {
  const auto run = expect<RunOptions>(
      {"--set", "job.name=x", "--set", "trainer.steps=5", "train.toml", "--fresh"});
  EXPECT_EQ(run.set, (std::vector<std::string>{"job.name=x", "trainer.steps=5"}));
  EXPECT_EQ(run.train_file, "train.toml");
  EXPECT_TRUE(run.fresh);
}

TEST(Options, AViewerCanBeAskedForEveryLine) {
  EXPECT_TRUE(expect<RunOptions>({"train.toml", "-v"}).verbose);
  EXPECT_TRUE(expect<AttachOptions>({"attach", "--verbose"}).verbose);
  EXPECT_FALSE(expect<ResumeOptions>({"resume"}).verbose);
}

TEST(Options, TheViewsTakeAJobAndTheirOwnFlags) {
  const auto status =
      expect<StatusOptions>({"status", "kjv", "--wait", "running", "--timeout", "5 s"});
  EXPECT_EQ(status.job, "kjv");
  EXPECT_EQ(status.wait, "running");
  EXPECT_EQ(status.timeout, 5s);
  EXPECT_EQ(expect<LogsOptions>({"logs", "--rank", "3"}).rank, 3U);
  EXPECT_TRUE(expect<EventsOptions>({"events", "--json", "--follow"}).follow);
  EXPECT_FALSE(expect<StopOptions>({"stop", "--no-wait"}).wait);
}

TEST(Options, ASimulationTakesItsSeeds) {
  const auto simulate =
      expect<SimulateOptions>({"simulate", "x.toml", "--seed", "7", "--seeds", "3", "--trace"});
  EXPECT_EQ(simulate.scenario, "x.toml");
  EXPECT_EQ(simulate.seed, 7U);
  EXPECT_EQ(simulate.seeds, 3U);
  EXPECT_TRUE(simulate.trace);
  EXPECT_EQ(code_of({"simulate"}), 64);
  EXPECT_EQ(code_of({"simulate", "x.toml", "--trace", "--json"}), 64);
}

TEST(Options, AWrongCommandLineIs64) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"run"},
                                                {"--nonsense", "train.toml"},
                                                {"status", "--wait", "happy"},
                                                {"status", "--timeout", "5"},
                                                {"status", "--timeout", "5 s"},
                                                {"status", "--wait", "running", "--watch"},
                                                {"train.toml", "--json"},
                                                {"train.toml", "--detach", "--attached"},
                                                {"a.toml", "b.toml"},
                                                {"--from", "pbs", "train.toml"},
                                                {"drill"},
                                                {"logs", "--rank", "minus"}}) {
    EXPECT_EQ(code_of(wrong), 64) << (wrong.empty() ? "" : wrong.front());
  }
}

TEST(Options, EveryCommandHasHelp) {
  for (const auto* command :
       {"run", "list", "attach", "resume", "status", "logs", "events", "stop"}) {
    EXPECT_EQ(code_of({command, "-h"}), 0) << command;
  }
  EXPECT_EQ(code_of({"-h"}), 0);
}

}  // namespace
}  // namespace dlaunch::launcher::cli
