#include "launcher/cli/viewer.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;

Instant at(milliseconds since) { return Instant{} + 1h + since; }

std::string printed(const std::vector<ViewerCommand>& commands) {
  std::string text;
  for (const auto& command : commands) {
    if (const auto* print = std::get_if<Print>(&command)) text += print->text;
  }
  return text;
}
std::optional<int> code(const std::vector<ViewerCommand>& commands) {
  for (const auto& command : commands) {
    if (const auto* leave = std::get_if<Leave>(&command)) return leave->code;
  }
  return std::nullopt;
}
std::optional<json> request(const std::vector<ViewerCommand>& commands) {
  for (const auto& command : commands) {
    if (const auto* wanted = std::get_if<Request>(&command)) return wanted->request;
  }
  return std::nullopt;
}

TEST(Viewer, CtrlCAsksForACheckpointFirstAndThenInsists) {
  Viewer viewer(ViewerMode::run, "kjv");
  const auto first = viewer.step(at(0ms), Signalled{UserSignal::interrupt});
  EXPECT_EQ(request(first).value_or(json{}).value("now", true), false);
  EXPECT_NE(printed(first).find("again"), std::string::npos);
  EXPECT_EQ(code(first), std::nullopt) << "it stays to see the end";
  const auto second = viewer.step(at(1ms), Signalled{UserSignal::interrupt});
  EXPECT_EQ(request(second).value_or(json{}).value("now", false), true);
  EXPECT_EQ(code(viewer.step(at(2ms), Told{{{"type", "ended"}, {"code", 130}}})), 130);
}

TEST(Viewer, OnlyLooksWhenAttachedToAJobLater) {
  Viewer viewer(ViewerMode::attach, "kjv");
  const auto commands = viewer.step(at(0ms), Signalled{UserSignal::interrupt});
  EXPECT_EQ(code(commands), 0);
  EXPECT_EQ(request(commands), std::nullopt);
  EXPECT_NE(printed(commands).find("dlaunch stop kjv"), std::string::npos);
}

TEST(Viewer, ALostTerminalDetachesAndDoesNotLookLikeSuccess) {
  for (const auto signal : {UserSignal::hang_up, UserSignal::terminate}) {
    const auto commands = Viewer(ViewerMode::run, "kjv").step(at(0ms), Signalled{signal});
    EXPECT_EQ(request(commands), std::nullopt);
    EXPECT_NE(code(commands).value_or(0), 0);
  }
}

TEST(Viewer, TiedToTheJobATerminationIsAPreemption) {
  const auto commands =
      Viewer(ViewerMode::attached, "kjv").step(at(0ms), Signalled{UserSignal::terminate});
  EXPECT_EQ(request(commands).value_or(json{}).value("preempted", false), true);
}

TEST(Viewer, PrintsProgressNowAndThenAndIncidentsAlways) {
  Viewer viewer(ViewerMode::run, "kjv");
  const auto progress = [](int step) {
    return Told{{{"type", "progress"}, {"step", step}, {"steps", 100}}};
  };
  EXPECT_EQ(printed(viewer.step(at(0ms), progress(1))), "step 1/100\n");
  EXPECT_EQ(printed(viewer.step(at(500ms), progress(2))), "");
  EXPECT_EQ(printed(viewer.step(at(2100ms), progress(3))), "step 3/100\n");
  const Told incident{
      {{"type", "incident"},
       {"incident", {{"id", 1}, {"verdict", "wait"}, {"sentence", "gpu03 fell silent"}}}}};
  EXPECT_NE(printed(viewer.step(at(2200ms), incident)), "");
  EXPECT_EQ(printed(viewer.step(at(2300ms), incident)), "") << "nothing new in it";
}

TEST(Viewer, AControllerThatIsGoneForGoodIsABug) {
  EXPECT_EQ(code(Viewer(ViewerMode::run, "kjv").step(at(0ms), ControllerGone{})), 70);
}

}  // namespace
}  // namespace dlaunch::launcher::cli
