#include "launcher/views/report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace dlaunch::launcher::views {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json event(double time, const char* name) { return {{"time", time}, {"event", name}}; }
/// Detected at once; without a step of its own at the end: given up.
json incident(const char* cause, double total, std::uint64_t lost_steps, bool stepped = true,
              bool closed = true) {
  return {{"cause", cause},
          {"closed", closed},
          {"lost_steps", lost_steps},
          {"seconds",
           {{"detect", 0.0},
            {"restore", total / 2},
            {"first_step", stepped ? total / 2 : 0},
            {"total", total}}}};
}

const json kStatus = {{"job", "kjv"}, {"id", "kjv-1"}, {"state", "finished"}};
/// 100 s, stopped for 1,000 s, and 50 s.
const std::vector<json> kEvents = {
    event(1000, "host_ready"),      event(1001, "generation_formed"),
    event(1004, "first_step"),      event(1050, "incident_opened"),
    event(1052, "first_step"),      event(1060, "incident_opened"),
    event(1064, "first_step"),      event(1100, "job_stopped"),
    event(1101, "host_cleared"),    event(2100, "controller_restarted"),
    event(2100, "host_ready"),      event(2101, "generation_formed"),
    event(2102, "incident_opened"), event(2106, "first_step"),
    event(2120, "incident_opened"), event(2128, "first_step"),
    event(2150, "job_finished")};

TEST(Report, TimeIsSplitIntoWhatItWasSpentOn) {
  const std::vector<json> incidents = {incident("worker_killed", 2, 3), incident("host_lost", 4, 0),
                                       incident("host_lost", 4, 100), incident("host_lost", 8, 5)};
  const auto report =
      make_report(kStatus, kEvents, incidents, {{1010, 3.0, {}, 0.5}, {1090, 2.0, {}, 0.5}}, {});
  EXPECT_EQ(report.time.runs, 2U);
  EXPECT_DOUBLE_EQ(report.time.total, 150) << "what is told after an end begins no run";
  EXPECT_DOUBLE_EQ(report.time.starting, 4 + 6);
  EXPECT_DOUBLE_EQ(report.time.recovering, 2 + 4 + 8) << "the third was before the first step";
  EXPECT_DOUBLE_EQ(report.time.redoing, 8 * 0.5);
  EXPECT_DOUBLE_EQ(*report.time.goodput(), (150 - 10 - 14) / 150.0);
  ASSERT_EQ(report.causes.size(), 2U);
  EXPECT_EQ(report.causes[0].cause, "host_lost") << "the most frequent first";
  EXPECT_DOUBLE_EQ(report.causes[0].total, 4);
  EXPECT_DOUBLE_EQ(report.causes[0].worst, 8);
  EXPECT_DOUBLE_EQ(report.causes[0].phases[4], 2);
  EXPECT_EQ(report.causes[0].lost_steps, 105U);
  const auto page = report_page(report);
  EXPECT_THAT(page, HasSubstr("goodput  84.00 % of 150.00 s in 2 runs\n"));
  EXPECT_THAT(page, HasSubstr("host_lost      3      105         4.00 s  8.00 s  0.00"));
  EXPECT_DOUBLE_EQ(report_json(report)["seconds"]["productive"].get<double>(), 126);
}

TEST(Report, AJobThatWaitsOrGaveUpDoesNoWorkMeanwhile) {
  std::vector<json> events = {event(0, "host_ready"), event(2, "first_step"),
                              event(10, "incident_opened")};
  const auto open = incident("host_lost", 1, 0, false, false);
  const auto waiting = make_report(kStatus, events, {open}, {}, 100.0);
  EXPECT_DOUBLE_EQ(waiting.time.recovering, 90);
  EXPECT_EQ(waiting.open_incidents, 1U);
  events.push_back(event(70, "job_failed"));
  const auto given_up = make_report(kStatus, events, {incident("host_lost", 1, 0, false)}, {}, {});
  EXPECT_DOUBLE_EQ(given_up.time.recovering, 60);
  EXPECT_DOUBLE_EQ(given_up.time.productive(), 8);
}

TEST(Report, ARunEndsWhereNothingIsAdopted) {
  const auto with = [](const char* next) {
    return make_report(kStatus,
                       {event(0, "host_ready"), event(1, "first_step"), event(50, "parked"),
                        event(1000, "controller_restarted"), event(1001, next),
                        event(1002, "first_step"), event(1010, "job_finished")},
                       {}, {}, {})
        .time;
  };
  EXPECT_EQ(with("generation_adopted").runs, 1U);
  EXPECT_DOUBLE_EQ(with("generation_adopted").total, 1010);
  EXPECT_EQ(with("generation_formed").runs, 2U);
  EXPECT_DOUBLE_EQ(with("generation_formed").total, 50 + 10);
}

TEST(Report, ARunThatLivesEndsNow) {
  const std::vector<json> events = {event(10, "host_ready"), event(12, "first_step")};
  EXPECT_DOUBLE_EQ(make_report(kStatus, events, {}, {}, 30.0).time.total, 20);
  EXPECT_DOUBLE_EQ(make_report(kStatus, events, {}, {{25, 1.0, {}, 1}}, {}).time.total, 15)
      << "of one that died, the last that was heard";
}

TEST(Report, AJobThatNeverRanHasNoGoodput) {
  const auto report = make_report(kStatus, {}, {}, {}, {});
  EXPECT_FALSE(report.time.goodput());
  EXPECT_THAT(report_page(report), HasSubstr("nothing has run yet"));
  EXPECT_THAT(report_page(report), HasSubstr("loss: nothing is known yet"));
  EXPECT_EQ(report_json(report)["goodput"], nullptr);
}

TEST(Report, EachValidationIsAMark) {
  const auto report =
      make_report(kStatus, kEvents, {},
                  {{0, 3.0, {}, 1}, {60, {}, 2.5, 0}, {120, {}, 2.5, 0}, {180, 1, {}, 1}}, {});
  ASSERT_EQ(report.charts.size(), 2U);
  const auto& marks = report.charts[0].curves.at(1).points;
  ASSERT_EQ(marks.size(), 2U);
  EXPECT_EQ(marks[0].x, 1) << "minutes";
  EXPECT_EQ(marks[1].y, 2.5);
  EXPECT_EQ(report.charts[1].curves.at(0).points.size(), 2U) << "a validation has no step time";
}

TEST(TextChart, ALineFallsFromCornerToCorner) {
  const Chart chart{"loss", "h", "", {{"loss", {{0, 4}, {3, 1}}}, {"validation loss", {{0, 1}}}}};
  EXPECT_EQ(text_chart(chart, 4, 2),
            "loss (o validation loss)\n"
            "4 │⠑⢄⠀⠀\n"
            "1 │o⠀⠑⢄\n"
            "   0 3 h\n");
}

TEST(TextChart, OneValueAllTheTimeIsALineInTheMiddle) {
  const Chart chart{"step time", "h", "s", {{"step time", {{0, 2}, {1, 2}}}}};
  const auto text = text_chart(chart, 2, 3);
  EXPECT_THAT(text, HasSubstr("│⠀⠀\n        │"));
  EXPECT_THAT(text, HasSubstr("2.002 s │"));
}

TEST(SvgPage, IsOneFileWithALineForEachChartAndNothingUnescaped) {
  const auto page = svg_page({{"loss <raw> & more", "h", "", {{"loss", {{0, 4}, {3, 1}}}}},
                              {"empty", "h", "s", {{"none", {}}}}});
  EXPECT_THAT(page, HasSubstr("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(page, HasSubstr("points=\"80,40 800,280 \""));
  EXPECT_THAT(page, HasSubstr("loss &lt;raw&gt; &amp; more"));
  EXPECT_THAT(page, HasSubstr("empty: nothing is known yet"));
  EXPECT_EQ(page.find("<raw>"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher::views
