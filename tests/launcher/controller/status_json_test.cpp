// The status as others read it: schema 1.
#include "launcher/controller/status_json.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::controller {
namespace {

using supervisor::job::RankView;
using supervisor::job::View;

JobIdentity identity() {
  JobIdentity job;
  job.name = "kjv";
  job.id = "kjv-20261130-054512-1f3a";
  job.host_names = {{HostId{0}, "gpu01"}, {HostId{1}, "gpu02"}};
  return job;
}

Controller::HostView host(std::uint32_t number, const std::string& name) {
  Controller::HostView view;
  view.host = HostId{number};
  view.name = name;
  return view;
}

RankView rank(std::uint32_t number, std::uint32_t of_host, const std::string& state) {
  RankView view;
  view.rank = Rank{number};
  view.host = HostId{of_host};
  view.pid = 4242;
  view.state = state;
  view.step = Step{7};
  view.phase = "backward";
  return view;
}

TEST(StatusJson, RanksStandAtTheirHosts) {
  View view;
  view.ranks = {rank(0, 0, "running"), rank(1, 0, "running"), rank(2, 1, "running")};
  const auto shown = status_json(identity(), {host(0, "gpu01"), host(1, "gpu02"), host(2, "gpu03")},
                                 view, Instant{});
  EXPECT_EQ(shown.at("hosts")[0].at("ranks"), nlohmann::json({0, 1}));
  EXPECT_EQ(shown.at("hosts")[1].at("ranks"), nlohmann::json({2}));
  EXPECT_EQ(shown.at("hosts")[2].at("ranks"), nlohmann::json::array());
  EXPECT_EQ(shown.at("ranks")[2].at("host"), "gpu02");
}

TEST(StatusJson, AWorkerThatIsGoneHasNoPidAndNoPhase) {
  View view;
  view.ranks = {rank(0, 0, "running"), rank(1, 0, "exited"), rank(2, 1, "absent")};
  const auto ranks =
      status_json(identity(), {host(0, "gpu01"), host(1, "gpu02")}, view, Instant{}).at("ranks");
  EXPECT_EQ(ranks[0].at("phase"), "backward");
  EXPECT_EQ(ranks[0].at("pid"), 4242);
  for (const auto* gone : {&ranks[1], &ranks[2]}) {
    EXPECT_EQ(gone->at("phase"), "");
    EXPECT_EQ(gone->at("pid"), nullptr);
    EXPECT_EQ(gone->at("step"), 7) << "what it had done stays";
  }
}

TEST(StatusJson, FiguresThatAreNotKnownAreNull) {
  View view;
  view.ranks = {rank(0, 0, "running")};
  auto shown = status_json(identity(), {host(0, "gpu01")}, view, Instant{});
  EXPECT_EQ(shown.at("figures").at("gradient_norm"), nullptr);
  EXPECT_EQ(shown.at("figures").at("gemm_utilization"), nullptr);
  EXPECT_EQ(shown.at("ranks")[0].at("memory_peak_bytes"), nullptr);
  view.figures.gradient_norm = 0.0;
  view.figures.memory_peak_bytes = 1 << 20;
  view.ranks[0].memory_bytes = 1 << 19;
  shown = status_json(identity(), {host(0, "gpu01")}, view, Instant{});
  EXPECT_EQ(shown.at("figures").at("gradient_norm"), 0.0) << "a zero that was told is one";
  EXPECT_EQ(shown.at("figures").at("memory_peak_bytes"), 1 << 20);
  EXPECT_EQ(shown.at("ranks")[0].at("memory_bytes"), 1 << 19);
}

TEST(StatusJson, TheSummaryNamesTheHostsThatHaveRanks) {
  View view;
  view.state = supervisor::job::JobState::running;
  view.world_size = 1;
  view.ranks = {rank(0, 1, "running")};
  const auto shown = summary_json(identity(), {host(0, "gpu01"), host(1, "gpu02")}, view);
  EXPECT_EQ(shown.at("state"), "running");
  EXPECT_EQ(shown.at("id"), "kjv-20261130-054512-1f3a");
  ASSERT_EQ(shown.at("hosts").size(), 1U);
  EXPECT_EQ(shown.at("hosts")[0].at("name"), "gpu02");
}

}  // namespace
}  // namespace dlaunch::launcher::controller
