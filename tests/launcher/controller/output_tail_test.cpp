// What is kept of the workers' output, and that it stays bounded.
#include "launcher/controller/output_tail.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::controller {
namespace {

protocol::LogLines lines(std::uint32_t rank, const std::string& text, std::uint64_t dropped = 0) {
  protocol::LogLines made;
  made.set_rank(rank);
  made.set_text(text);
  made.set_dropped(dropped);
  return made;
}

std::string text_of(const OutputTail& tail, std::uint64_t generation, std::uint32_t rank) {
  std::string text;
  for (const auto& chunk : tail.all()) {
    if (chunk->generation.value == generation && chunk->rank.value == rank) text += chunk->text;
  }
  return text;
}

TEST(OutputTail, KeepsTheNewestWholeLinesOfEachRank) {
  OutputTail tail;
  for (int i = 0; i < 2000; ++i) {
    tail.add(HostId{0}, Generation{1},
             lines(0, "line " + std::to_string(i) + std::string(90, '.') + "\n"));
  }
  tail.add(HostId{1}, Generation{1}, lines(1, "other\n"));
  const auto text = text_of(tail, 1, 0);
  EXPECT_LE(text.size(), OutputTail::kBytesPerRankMax);
  EXPECT_GT(text.size(), OutputTail::kBytesPerRankMax - 200);
  EXPECT_TRUE(text.starts_with("line ")) << "cut between lines";
  EXPECT_NE(text.find("line 1999."), std::string::npos);
  EXPECT_EQ(text_of(tail, 1, 1), "other\n");
}

TEST(OutputTail, SaysWhatWasDroppedOnTheWay) {
  OutputTail tail;
  const auto chunk = tail.add(HostId{0}, Generation{1}, lines(0, "next\n", 17));
  EXPECT_EQ(chunk->text.rfind("[dlaunch: 17 lines were not sent", 0), 0U);
  EXPECT_TRUE(chunk->text.ends_with("\nnext\n"));
}

TEST(OutputTail, ForgetsTheOldestGenerations) {
  OutputTail tail;
  for (std::uint64_t generation = 1; generation <= 20; ++generation) {
    tail.add(HostId{0}, Generation{generation}, lines(0, "x\n"));
  }
  EXPECT_EQ(text_of(tail, 20 - OutputTail::kGenerationsMax, 0), "");
  EXPECT_EQ(text_of(tail, 20 - OutputTail::kGenerationsMax + 1, 0), "x\n");
}

TEST(OutputTail, KnowsWhichGenerationsHaveOutputThatIsNotStoredYet) {
  OutputTail tail({{HostId{0}, "gpu01"}});
  EXPECT_EQ(tail.newest(), std::nullopt);
  tail.add(HostId{0}, Generation{1}, lines(0, "one\n"));
  tail.add(HostId{0}, Generation{2}, lines(0, "two\n"));
  EXPECT_EQ(tail.newest(), Generation{2});
  EXPECT_EQ(tail.unsaved(), (std::vector<Generation>{Generation{1}, Generation{2}}));
  tail.saved(Generation{1});
  EXPECT_EQ(tail.unsaved(), std::vector<Generation>{Generation{2}});
  tail.add(HostId{0}, Generation{1}, lines(0, "late\n"));
  EXPECT_EQ(tail.unsaved().size(), 2U);
  ASSERT_EQ(tail.of(Generation{1}).size(), 2U);
  EXPECT_EQ(tail.of(Generation{1})[1]->text, "late\n");
  EXPECT_EQ(tail.of(Generation{1})[1]->host_name, "gpu01");
}

TEST(OutputTail, ALineLongerThanTheBoundGoesAltogether) {
  OutputTail tail;
  tail.add(HostId{0}, Generation{1}, lines(0, std::string(100'000, 'x') + "\n"));
  tail.add(HostId{0}, Generation{1}, lines(0, "short\n"));
  EXPECT_EQ(text_of(tail, 1, 0), "short\n");
}

}  // namespace
}  // namespace dlaunch::launcher::controller
