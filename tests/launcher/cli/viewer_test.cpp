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

TEST(Viewer, AThirdCtrlCLeavesAnEndThatTakesItsTime) {
  Viewer viewer(ViewerMode::run, "kjv");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(code(viewer.step(at(0ms), Signalled{UserSignal::interrupt})), std::nullopt);
  }
  EXPECT_EQ(code(viewer.step(at(0ms), Signalled{UserSignal::interrupt})), 130);
}

TEST(Viewer, PreemptionsDoNotCountAsCtrlC) {
  Viewer viewer(ViewerMode::attached, "kjv");
  for (int i = 0; i < 3; ++i) (void)viewer.step(at(0ms), Signalled{UserSignal::terminate});
  const auto first = viewer.step(at(0ms), Signalled{UserSignal::interrupt});
  EXPECT_EQ(request(first).value_or(json{}).value("now", true), false);
  const auto second = viewer.step(at(0ms), Signalled{UserSignal::interrupt});
  EXPECT_EQ(request(second).value_or(json{}).value("now", false), true);
}

TEST(Viewer, ShowsWhoRunsWhatOnceTheJobRuns) {
  Viewer viewer(ViewerMode::run, "kjv");
  const auto state = [](const char* name) {
    return Told{
        {{"type", "state"},
         {"state", name},
         {"reason", ""},
         {"job", "kjv"},
         {"id", "kjv-20261130-054512-1f3a"},
         {"generation", 1},
         {"world_size", 3},
         {"hosts", {{{"name", "gpu01"}, {"ranks", {0, 1}}}, {{"name", "gpu02"}, {"ranks", {2}}}}}}};
  };
  EXPECT_EQ(printed(viewer.step(at(0ms), state("starting"))), "starting\n");
  EXPECT_EQ(printed(viewer.step(at(1ms), state("running"))),
            "job kjv  id kjv-20261130-054512-1f3a  generation 1  world size 3\n"
            "HOST   RANKS\n"
            "gpu01  0-1\n"
            "gpu02  2\n"
            "running\n");
  EXPECT_EQ(printed(viewer.step(at(2ms), state("running"))), "") << "after a reconnect";
  (void)viewer.step(at(3ms), Told{{{"type", "state"}, {"state", "recovering"}}});
  EXPECT_EQ(printed(viewer.step(at(4ms), state("running"))), "running\n");
}

TEST(Viewer, SaysWhatHappenedOnce) {
  Viewer viewer(ViewerMode::run, "kjv");
  const auto incident = [](bool closed) {
    return Told{{{"type", "incident"},
                 {"incident",
                  {{"id", 1},
                   {"cause", "host_lost"},
                   {"verdict", "replace_host"},
                   {"sentence", "gpu03 fell silent; gpu05 takes its ranks"},
                   {"closed", closed},
                   {"lost_steps", 7},
                   {"seconds", {{"total", 1.5}}}}}}};
  };
  const auto state = [](const char* name, const char* reason) {
    return Told{{{"type", "state"}, {"state", name}, {"reason", reason}}};
  };
  const Told progress{{{"type", "progress"}, {"step", 5}, {"steps", 100}}};
  (void)viewer.step(at(0ms), state("running", ""));
  EXPECT_NE(printed(viewer.step(at(1ms), incident(false))).find("gpu03 fell silent"),
            std::string::npos);
  EXPECT_EQ(printed(viewer.step(at(2ms), state("recovering", "gpu03 fell silent"))), "");
  EXPECT_EQ(printed(viewer.step(at(3ms), progress)), "") << "of the time before";
  const auto closed = printed(viewer.step(at(4ms), incident(true)));
  EXPECT_NE(closed.find("recovered in 1.50 s"), std::string::npos);
  EXPECT_EQ(closed.find("gpu03"), std::string::npos);
  (void)viewer.step(at(5ms), state("running", ""));
  EXPECT_EQ(printed(viewer.step(at(6ms), progress)), "step 5/100\n");
}

TEST(Viewer, SaysTheEndOnce) {
  Viewer viewer(ViewerMode::run, "kjv");
  EXPECT_EQ(printed(viewer.step(
                at(0ms),
                Told{{{"type", "state"}, {"state", "stopped"}, {"reason", "stopped at step 7"}}})),
            "");
  EXPECT_EQ(
      printed(viewer.step(
          at(0ms), Told{{{"type", "ended"}, {"code", 75}, {"sentence", "stopped at step 7"}}})),
      "dlaunch: stopped at step 7\n");
}

TEST(Viewer, TellsAStepOfTheTrainerOnce) {
  const Told output{{{"type", "output"},
                     {"text",
                      "starting from the first values\n"
                      "step 1/100  loss 2.91  tokens/s 41200\n"
                      "step 2/100 of my own\n"}}};
  EXPECT_EQ(printed(Viewer(ViewerMode::run, "kjv").step(at(0ms), output)),
            "starting from the first values\nstep 2/100 of my own\n");
  EXPECT_NE(printed(Viewer(ViewerMode::run, "kjv", true).step(at(0ms), output)).find("loss 2.91"),
            std::string::npos);
}

TEST(Viewer, LeavesTheStepsOfAProgramToItsOwnLinesWhileItPrints) {
  Viewer viewer(ViewerMode::run, "kjv");
  const auto progress = [](int step) {
    return Told{{{"type", "progress"}, {"step", step}, {"steps", nullptr}}};
  };
  EXPECT_EQ(printed(viewer.step(at(0ms), progress(1))), "step 1\n");
  (void)viewer.step(at(3s), Told{{{"type", "output"}, {"text", "step=2 loss=1\n"}}});
  EXPECT_EQ(printed(viewer.step(at(4s), progress(2))), "");
  EXPECT_EQ(printed(viewer.step(at(20s), progress(9))), "step 9\n");
}

TEST(Viewer, ASilentControllerIsNamedAndTheViewerStays) {
  const auto commands = Viewer(ViewerMode::run, "kjv").step(at(0ms), ControllerSilent{});
  EXPECT_EQ(code(commands), std::nullopt);
  EXPECT_NE(printed(commands).find("starts another"), std::string::npos);
}

TEST(Viewer, WithoutAReaderItDetachesInSilence) {
  const auto commands = Viewer(ViewerMode::run, "kjv").step(at(0ms), TerminalGone{});
  EXPECT_EQ(printed(commands), "");
  EXPECT_NE(code(commands).value_or(0), 0);
  EXPECT_EQ(request(commands), std::nullopt);
}

TEST(Viewer, AControllerThatIsGoneForGoodIsABug) {
  EXPECT_EQ(code(Viewer(ViewerMode::run, "kjv").step(at(0ms), ControllerGone{})), 70);
}

}  // namespace
}  // namespace dlaunch::launcher::cli
