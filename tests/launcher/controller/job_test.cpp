// A whole controller with its keeper and real agents on this machine, driven over its socket.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/cli/io/control_client.h"
#include "launcher/controller/io/controller_process.h"
#include "launcher/controller/io/keeper.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/state_lock.h"
#include "tests/base/io/temporary_directory.h"
#include "tests/base/io/wait_until.h"

namespace dlaunch::launcher::controller {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class JobTest : public testing::Test {
 protected:
  void SetUp() override {
    state_ = temporary_.text() + "/state";
    scratch_ = temporary_.text() + "/scratch";
    std::filesystem::create_directory(state_);
    std::filesystem::create_directory(scratch_);
    input_.id = "test-" + std::to_string(::getpid());
    input_.hosts_file = "hosts.toml";
    input_.hosts_text = "[defaults]\ntransport = \"local\"\nscratch = \"" + scratch_ +
                        "\"\n[[host]]\nname = \"here[1-2]\"\n";
    input_.train.file = "train.toml";
    input_.train.directory = temporary_.text();
    input_.environment = {{"PATH", "/usr/bin:/bin"}};
    input_.program_folder = std::filesystem::path(DLAUNCH_AGENT).parent_path();
  }
  void TearDown() override {
    if (alive()) (void)ask({{"request", "stop"}, {"now", true}, {"reason", "the test is over"}});
    EXPECT_TRUE(wait_until([&] { return !alive(); }));
    if (HasFailure()) {
      show(state_ + "/controller.log");
      for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch_)) {
        if (entry.path().filename() == "agent.log") show(entry.path());
      }
    }
  }
  static void show(const std::string& path) {
    std::ifstream log(path);
    std::cerr << path << ":\n" << std::string(std::istreambuf_iterator<char>(log), {});
  }
  Result<StartReport> start(const std::string& train) {
    input_.train_text = train;
    EXPECT_TRUE(write_job_input(state_, input_));
    return start_keeper(state_, CONTROLLER_TEST_PROGRAM);
  }
  [[nodiscard]] bool alive() const {
    return is_locked(state_, kKeeperLock) || is_locked(state_, kControllerLock);
  }
  json ask(const json& request) const {
    auto answer = cli::ask(state_, request, 10s);
    return answer ? *answer : json{{"failed", answer.error().text()}};
  }
  [[nodiscard]] std::string state() const {
    return ask({{"request", "status"}}).value("state", std::string());
  }
  /// Gives up as soon as the job is over.
  [[nodiscard]] bool comes_to_run() const {
    return wait_until([&] { return state() == "running" || !alive(); }) && state() == "running";
  }
  [[nodiscard]] std::optional<EndRow> end() const {
    auto reader = RunReader::open(state_);
    return reader ? *reader->end() : std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> event_names() const {
    std::vector<std::string> names;
    auto reader = RunReader::open(state_);
    const auto events = reader->events(0, 10'000);
    for (const auto& event : *events) names.push_back(event.event);
    return names;
  }
  static std::vector<json> pids_of(const json& status) {
    std::vector<json> pids;
    for (const auto& rank : status.at("ranks")) pids.push_back(rank.at("pid"));
    return pids;
  }
  static std::string program(const std::string& script) {
    return "[program]\ncommand = [\"sh\", \"-c\", '''" + script + "''']\n";
  }

  TemporaryDirectory temporary_;
  std::string state_;
  std::string scratch_;
  JobInput input_;
};

TEST_F(JobTest, WrongFilesAreReportedAllAtOnceBeforeAnythingStarts) {
  input_.hosts_text = "[[host]]\nnam = \"x\"\n";
  const auto report = start("[jobb]\n");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->code, 65);
  EXPECT_THAT(report->sentence, HasSubstr("hosts.toml:2"));
  EXPECT_THAT(report->sentence, HasSubstr("train.toml:1"));
}

TEST_F(JobTest, TwoLocalHostsRunAProgramToItsEnd) {
  const auto report = start(program("echo rank $RANK of $WORLD_SIZE"));
  ASSERT_TRUE(report) << report.error().text();
  ASSERT_EQ(report->code, 0) << report->sentence;
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code, 0) << end()->sentence;
  EXPECT_THAT(event_names(), testing::IsSupersetOf({"host_ready", "generation_formed",
                                                    "worker_exited", "job_finished"}));
}

TEST_F(JobTest, AStopEndsItWithSeventyFiveAndTheWatcherIsTold) {
  ASSERT_EQ(start(program("exec sleep 1000"))->code, 0);
  ASSERT_TRUE(comes_to_run()) << ask({{"request", "status"}});
  auto watcher = cli::ControlClient::connect(state_);
  ASSERT_TRUE(watcher);
  ASSERT_TRUE(watcher->send({{"request", "watch"}}));
  EXPECT_EQ(watcher->receive(10s)->at("type"), "state");
  EXPECT_EQ(ask({{"request", "stop"}, {"now", false}, {"reason", "a test"}}).at("ok"), true);
  json last;
  for (auto line = watcher->receive(60s); line; line = watcher->receive(60s)) last = *line;
  EXPECT_EQ(last.value("type", ""), "ended") << last;
  EXPECT_EQ(last.value("code", 0), 75) << last;
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(end()->code, 75);
}

TEST_F(JobTest, AKilledControllerIsBackAndTheJobGoesOn) {
  ASSERT_EQ(start(program("exec sleep 1000"))->code, 0);
  ASSERT_TRUE(comes_to_run()) << ask({{"request", "status"}});
  // It runs before the first heartbeat tells the workers' pids.
  json before;
  ASSERT_TRUE(wait_until([&] {
    before = ask({{"request", "status"}});
    return before.at("ranks").at(0).at("pid").is_number() &&
           before.at("ranks").at(1).at("pid").is_number();
  }));
  const auto pid = before.at("controller").at("pid").get<pid_t>();
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] {
    const auto now = ask({{"request", "status"}});
    return now.value("state", "") == "running" && now.at("controller").at("pid") != pid &&
           pids_of(now) == pids_of(before);
  })) << ask({{"request", "status"}});
  const auto after = ask({{"request", "status"}});
  EXPECT_EQ(after.at("generation"), before.at("generation"));
  EXPECT_EQ(pids_of(after), pids_of(before)) << "no process was started again";
  // They are written a moment after they are shown.
  EXPECT_TRUE(wait_until([&] {
    const auto names = event_names();
    return std::ranges::count(names, "controller_restarted") == 1 &&
           std::ranges::count(names, "generation_adopted") == 1;
  })) << testing::PrintToString(event_names());
}

TEST_F(JobTest, SigtermToTheKeeperStopsTheJobAsPreempted) {
  ASSERT_EQ(start(program("exec sleep 1000"))->code, 0);
  ASSERT_TRUE(comes_to_run()) << ask({{"request", "status"}});
  std::ifstream lock(state_ + "/" + kKeeperLock);
  std::string word;
  pid_t pid = 0;
  lock >> word >> pid;
  ASSERT_EQ(::kill(pid, SIGTERM), 0);
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code, 75) << end()->sentence;
  EXPECT_THAT(end()->sentence, HasSubstr("preempted"));
}

}  // namespace
}  // namespace dlaunch::launcher::controller
