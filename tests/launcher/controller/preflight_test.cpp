// Which hosts are fit when their files differ.
#include "launcher/controller/preflight.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::controller {
namespace {

protocol::Ready with_data(const std::string& hash, std::uint64_t bytes = 100) {
  protocol::Ready ready;
  auto& file = *ready.add_files();
  file.set_path("/data/kjv.txt");
  file.set_exists(true);
  file.set_bytes(bytes);
  file.set_hash(hash);
  return ready;
}

/// The verdicts as "0 fit, 1 unfit".
std::string told(const std::vector<std::pair<HostId, Preflight::Verdict>>& verdicts) {
  std::string text;
  for (const auto& [id, verdict] : verdicts) {
    text += (text.empty() ? "" : ", ") + std::to_string(id.value) +
            (verdict.fit        ? " fit"
             : verdict.by_files ? " differs"
                                : " unfit");
  }
  return text;
}

std::string take(Preflight& preflight, std::uint32_t id, const protocol::Ready& ready) {
  return told(preflight.take(HostId{id}, "gpu0" + std::to_string(id), ready));
}

TEST(Preflight, TheControllersOwnCopyDecidesWhoeverReportsFirst) {
  Preflight preflight({{"/data/kjv.txt", {100, "good"}}});
  EXPECT_EQ(take(preflight, 0, with_data("odd")), "0 differs");
  EXPECT_EQ(take(preflight, 1, with_data("odd")), "1 differs");
  EXPECT_EQ(take(preflight, 2, with_data("good")), "2 fit");
  const auto verdicts = preflight.take(HostId{3}, "gpu03", with_data("odd", 99));
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_NE(verdicts[0].second.sentence.find("on the machine of the controller (99 bytes here, 100 "
                                             "there)"),
            std::string::npos);
}

TEST(Preflight, WithoutOneTheOddHostIsUnfitAlsoWhenItReportsFirst) {
  Preflight preflight({});
  EXPECT_EQ(take(preflight, 1, with_data("odd")), "1 fit");
  EXPECT_EQ(take(preflight, 2, with_data("good")), "2 differs")
      << "one each: the first in the file";
  EXPECT_EQ(take(preflight, 3, with_data("good")), "1 differs, 2 fit, 3 fit");
  EXPECT_EQ(take(preflight, 0, with_data("good")), "0 fit");
}

TEST(Preflight, AfterARestartHostsThatTrainSayWhatTheOthersMustHave) {
  Preflight preflight({});
  preflight.settle({HostId{1}, HostId{2}});
  EXPECT_EQ(take(preflight, 0, with_data("odd")), "0 unfit") << "it is not known yet";
  EXPECT_EQ(take(preflight, 3, with_data("good")), "3 unfit");
  EXPECT_EQ(take(preflight, 1, with_data("good")), "0 differs, 1 fit, 3 fit");
  EXPECT_EQ(take(preflight, 2, with_data("good")), "2 fit");
}

TEST(Preflight, WhereNoneOfThemCameBackAllAreComparedAsAtTheStart) {
  Preflight preflight({});
  preflight.settle({HostId{1}});
  EXPECT_EQ(take(preflight, 0, with_data("good")), "0 unfit");
  EXPECT_EQ(take(preflight, 2, with_data("odd")), "2 unfit");
  EXPECT_EQ(told(preflight.start_over()), "0 fit, 2 differs");
  EXPECT_EQ(take(preflight, 3, with_data("odd")), "0 differs, 2 fit, 3 fit");
}

TEST(Preflight, WhereTheLastOfThemIsLostBeforeItReportsAllAreComparedAsAtTheStart) {
  Preflight preflight({});
  preflight.settle({HostId{0}, HostId{1}});
  EXPECT_EQ(take(preflight, 2, with_data("good")), "2 unfit");
  EXPECT_EQ(told(preflight.lost(HostId{5})), "") << "it was not one of them";
  EXPECT_EQ(told(preflight.lost(HostId{0})), "") << "the other may come yet";
  EXPECT_EQ(told(preflight.lost(HostId{1})), "2 fit");
}

TEST(Preflight, WhereItIsLostBeforeAnybodyReportsMostDecideAndNotTheFirst) {
  Preflight preflight({});
  preflight.settle({HostId{0}});
  EXPECT_EQ(told(preflight.lost(HostId{0})), "");
  EXPECT_EQ(take(preflight, 1, with_data("odd")), "1 fit");
  EXPECT_EQ(take(preflight, 2, with_data("good")), "2 differs");
  EXPECT_EQ(take(preflight, 3, with_data("good")), "1 differs, 2 fit, 3 fit");
}

TEST(Preflight, WhatTheLostHostsHadStillCounts) {
  Preflight preflight({});
  preflight.settle({HostId{0}});
  EXPECT_EQ(take(preflight, 0, with_data("good")), "0 fit");
  auto odd = with_data("odd");
  auto& other = *odd.add_files();
  other.set_path("/other/trainer");
  other.set_exists(true);
  other.set_hash("theirs");
  EXPECT_EQ(take(preflight, 2, odd), "2 differs");
  EXPECT_EQ(take(preflight, 3, odd), "3 differs");
  EXPECT_EQ(told(preflight.lost(HostId{0})), "2 differs, 3 differs")
      << "that they are two is nothing";
  EXPECT_EQ(take(preflight, 4, with_data("good")), "4 fit");
}

TEST(Preflight, ATieIsDecidedByTheOrderOfTheFileNotOfArrival) {
  Preflight preflight({});
  EXPECT_EQ(take(preflight, 1, with_data("b")), "1 fit");
  EXPECT_EQ(take(preflight, 0, with_data("a")), "0 fit, 1 differs");
}

TEST(Preflight, AStartedJobIsNotOutvoted) {
  Preflight preflight({});
  EXPECT_EQ(take(preflight, 0, with_data("a")), "0 fit");
  preflight.settle();
  EXPECT_EQ(take(preflight, 1, with_data("b")), "1 differs");
  EXPECT_EQ(take(preflight, 2, with_data("b")), "2 differs");
  EXPECT_EQ(take(preflight, 2, with_data("a")), "2 fit") << "it was put right";
}

TEST(Preflight, EveryCheckOfAFileIsAboutFiles) {
  for (const auto* check : {"trainer", "data", "command", "directory", "program"}) {
    protocol::Ready ready;
    auto& failure = *ready.add_failures();
    failure.set_check(check);
    failure.set_sentence("it is not there");
    Preflight preflight({});
    EXPECT_EQ(take(preflight, 0, ready), "0 differs") << check;
  }
}

}  // namespace
}  // namespace dlaunch::launcher::controller
