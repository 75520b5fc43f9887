#include "trainer/comm/frame.h"

#include <gtest/gtest.h>

namespace dlaunch::comm {
namespace {

TEST(Frame, ComesBackAsItWasSent) {
  const Frame frame{Operation::broadcast, 2, 3, 812, 4096, 8192};
  EXPECT_EQ(decode_frame(encode(frame)), frame);
  EXPECT_FALSE(decode_leaving(encode(frame)));
}

TEST(Frame, CarriesTheLastWordsOfARankThatLeaves) {
  const auto words = decode_leaving(encode(Leaving{FailureKind::peer_lost, Rank{0}}));
  ASSERT_TRUE(words);
  EXPECT_EQ(words->kind, FailureKind::peer_lost);
  EXPECT_EQ(words->suspect, Rank{0});
  EXPECT_FALSE(decode_leaving(encode(Leaving{FailureKind::aborted, std::nullopt}))->suspect);
  EXPECT_FALSE(decode_frame(encode(Leaving{FailureKind::aborted, std::nullopt})));
}

TEST(Frame, IsRefusedWhenItsFirstBytesOrItsOperationAreWrong) {
  FrameBytes bytes = encode(Frame{Operation::barrier, 0, 0, 1, 0, 0});
  bytes[4] = std::byte{99};
  EXPECT_FALSE(decode_frame(bytes));
  bytes = encode(Frame{Operation::barrier, 0, 0, 1, 0, 0});
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(decode_frame(bytes));
  EXPECT_FALSE(decode_frame(FrameBytes{}));
}

TEST(Frame, IsDescribedInWords) {
  EXPECT_EQ(describe({Operation::all_reduce, 0, 0, 812, 0, 4096}), "all-reduce 812 of 4096 bytes");
  EXPECT_EQ(describe({Operation::barrier, 2, 0, 5, 0, 0}), "barrier 5 of 0 bytes in group 2");
}

}  // namespace
}  // namespace dlaunch::comm
