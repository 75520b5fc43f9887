#include "launcher/views/status_view.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "launcher/views/table.h"

namespace dlaunch::launcher::views {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

const json kStatus =
    json::parse(R"({"schema":1,"job":"kjv","id":"kjv-1","state":"running","reason":"",
 "generation":3,"world_size":4,"step":812,"steps":2000,"loss":2.91,"tokens_per_second":41200,
 "step_seconds":0.1,"checkpoint":{"disk_step":800,"memory_step":null,"every":"94 steps"},
 "hosts":[{"name":"gpu01","state":"active","ranks":[0,1],"last_heartbeat_seconds":0.04,"reason":""},
          {"name":"gpu02","state":"lost","ranks":[],"last_heartbeat_seconds":null,"reason":"silent"}],
 "ranks":[{"rank":0,"host":"gpu01","pid":4242,"state":"running","step":812,"phase":"forward"}],
 "incidents":[{"id":1,"cause":"host_lost","host":"gpu03","rank":null,"verdict":"replace_host",
   "generation":2,"sentence":"gpu03 fell silent","lost_steps":7,"exact":true,
   "seconds":{"detect":0.61,"abort":0.01,"replace":0.02,"regroup":0.05,"restore":0.2,
              "first_step":0.4,"total":1.29}}]})");

TEST(StatusPage, ShowsJobHostsRanksAndIncidents) {
  const auto page = status_page(kStatus);
  EXPECT_THAT(page, HasSubstr("job kjv  id kjv-1  running\n"));
  EXPECT_THAT(
      page,
      HasSubstr(
          "generation 3  world size 4  step 812/2000  loss 2.9100  41.2 k tokens/s  ETA 2 min"));
  EXPECT_THAT(page, HasSubstr("checkpoint  step 800 on disk, every 94 steps\n"));
  EXPECT_THAT(page, HasSubstr("gpu01  active  0-1    0.04 s"));
  EXPECT_THAT(page, HasSubstr("gpu02  lost"));
  EXPECT_THAT(page, HasSubstr("0     gpu01  4242  running  812   forward\n"));
  EXPECT_THAT(page, HasSubstr("incident 1 (host_lost, replace_host): gpu03 fell silent"));
  EXPECT_THAT(page, HasSubstr("recovered in 1.29 s (detect 0.61, "));
  EXPECT_THAT(page, Not(HasSubstr(" \n"))) << "no blanks at line ends";
}

TEST(StatusPage, ShowsTheFiguresThatAreKnown) {
  auto status = kStatus;
  EXPECT_THAT(status_page(status), Not(HasSubstr("memory")));
  status["figures"] = json::parse(R"({"gradient_norm":0.8312,"validation_loss":3.01,
    "validation_step":800,"step_seconds_p50":0.1,"step_seconds_p95":1.25,"waiting_seconds":0.02,
    "bus_bytes_per_second":1.2e9,"bytes_sent":34000000,"flops_per_second":5.5e13,
    "gemm_utilization":0.41,"peak_utilization":null,"memory_bytes":1073741824,
    "memory_peak_bytes":2147483648,"memory_imbalance":0.07})");
  status["ranks"][0].update({{"memory_bytes", 1 << 30}, {"waiting_seconds", 0.02}});
  const auto page = status_page(status);
  EXPECT_THAT(page, HasSubstr("validation 3.0100  41.2 k tokens/s  41 % of GEMM  ETA"));
  EXPECT_THAT(page,
              HasSubstr("learning  gradient norm 0.831  validation loss 3.0100 at step 800\n"));
  EXPECT_THAT(page, HasSubstr("speed  step 100 ms, p95 1.25 s  waiting 20 ms  55 TFLOP/s  "
                              "41 % of what matrix products reach\n"));
  EXPECT_THAT(page, HasSubstr("network  34 MB a step  1.2 GB/s a rank\n"));
  EXPECT_THAT(page, HasSubstr("memory  1 GiB a rank  peak 2 GiB  IMBALANCED: "));
  EXPECT_THAT(page, HasSubstr("forward  20 ms    1 GiB"));
  status["figures"]["step_seconds_p50"] = 0.9999;
  status["figures"]["step_seconds_p95"] = 1234.4;
  EXPECT_THAT(status_page(status), HasSubstr("step 1 s, p95 1234 s"));
  status["figures"]["memory_imbalance"] = 0.04;
  EXPECT_THAT(status_page(status), Not(HasSubstr("IMBALANCED")));
}

TEST(StatusPage, OfAJobThatIsOverNothingIsHeardOrAwaited) {
  auto over = kStatus;
  over["state"] = "stopped";
  const auto page = status_page(over);
  EXPECT_THAT(page, Not(HasSubstr("ETA")));
  EXPECT_THAT(page, Not(HasSubstr("HEARD")));
  EXPECT_THAT(page, HasSubstr("gpu01  active  0-1"));
}

TEST(ProgressLine, SaysHowLongInWordsOfItsSize) {
  const auto eta = [](double seconds) {
    const auto line = progress_line({{"step", 1}, {"steps", 2}, {"step_seconds", seconds}});
    return line.substr(line.find("ETA"));
  };
  EXPECT_EQ(eta(42.4), "ETA 42 s");
  EXPECT_EQ(eta(332), "ETA 6 min");
  EXPECT_EQ(eta(12'000), "ETA 3 h 20 min");
  EXPECT_EQ(eta(1'051'200), "ETA 12 d 4 h");
}

TEST(StatusPage, SurvivesKeysThatAreMissingOrUnknown) {
  EXPECT_THAT(status_page(json::parse(R"({"job":"x","new_key":[1,{}],"hosts":null})")),
              HasSubstr("job x"));
  EXPECT_THAT(status_page(json::object()), HasSubstr("no step yet"));
}

TEST(EventLine, HasWhoAndWhatOnOneLine) {
  const auto line = event_line(json::parse(
      R"({"time":1790000000.25,"mono_ns":5,"event":"worker_exited","generation":2,"host":"gpu01","rank":3,
          "step":null,"detail":"killed by SIGKILL"})"));
  EXPECT_THAT(
      line, HasSubstr(".250  worker_exited  generation 2  host gpu01  rank 3  killed by SIGKILL"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(Ranges, FoldNeighbours) {
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({4}), "4");
  EXPECT_EQ(ranges({0, 1, 2, 3, 6, 8, 9}), "0-3,6,8-9");
}

}  // namespace
}  // namespace dlaunch::launcher::views
