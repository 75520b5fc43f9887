#include "rendezvous/liveness.h"

#include <gtest/gtest.h>

namespace dlaunch::rendezvous {
namespace {

constexpr HostId kA{0}, kB{1};
Instant at(milliseconds since) { return Instant{} + 1h + since; }

TEST(Liveness, AHostThatKeepsAnsweringIsNeverSuspect) {
  Liveness liveness(100ms, 600ms);
  liveness.watch(kA, at(0ms));
  for (auto t = 0ms; t < 10s; t += 100ms) {
    EXPECT_FALSE(liveness.heard(kA, at(t), at(t) - 1ms));
    EXPECT_TRUE(liveness.newly_suspect(at(t)).empty());
    EXPECT_TRUE(liveness.expired(at(t)).empty());
  }
}

TEST(Liveness, SilenceIsSuspectAtHalfTheTimeAndExpiresAtTheWhole) {
  Liveness liveness(100ms, 600ms);
  liveness.watch(kA, at(0ms));
  EXPECT_EQ(liveness.next_suspect(), at(300ms));
  EXPECT_TRUE(liveness.newly_suspect(at(299ms)).empty());
  EXPECT_EQ(liveness.newly_suspect(at(300ms)), std::vector{kA});
  EXPECT_TRUE(liveness.newly_suspect(at(301ms)).empty()) << "each silence is reported once";
  EXPECT_EQ(liveness.next_expiry(), at(600ms));
  EXPECT_TRUE(liveness.expired(at(599ms)).empty());
  EXPECT_EQ(liveness.expired(at(600ms)), std::vector{kA});
}

TEST(Liveness, FramesThatAcknowledgeNothingNewAreSilence) {
  Liveness liveness(100ms, 600ms);
  liveness.watch(kA, at(0ms));
  for (auto t = 100ms; t <= 700ms; t += 100ms) {
    EXPECT_FALSE(liveness.heard(kA, at(t), at(0ms))) << "our frames do not reach it";
  }
  EXPECT_EQ(liveness.newly_suspect(at(700ms)), std::vector{kA});
  EXPECT_EQ(liveness.expired(at(700ms)), std::vector{kA});
}

TEST(Liveness, ASuspectThatIsHeardAgainIsReportedCleared) {
  Liveness liveness(100ms, 600ms);
  liveness.watch(kA, at(0ms));
  liveness.watch(kB, at(0ms));
  EXPECT_EQ(liveness.newly_suspect(at(350ms)), (std::vector{kA, kB}));
  EXPECT_FALSE(liveness.heard(kA, at(450ms), std::nullopt))
      << "an old acknowledgement is not enough";
  EXPECT_TRUE(liveness.heard(kA, at(460ms), at(455ms)));
  EXPECT_EQ(liveness.expired(at(650ms)), std::vector{kB});
}

TEST(Liveness, AResetForgivesEverybody) {
  Liveness liveness(100ms, 600ms);
  liveness.watch(kA, at(0ms));
  EXPECT_EQ(liveness.newly_suspect(at(500ms)).size(), 1U);
  EXPECT_EQ(liveness.reset(at(900ms)), std::vector{kA});
  EXPECT_TRUE(liveness.expired(at(1400ms)).empty());
  EXPECT_EQ(liveness.next_suspect(), at(1200ms));
}

}  // namespace
}  // namespace dlaunch::rendezvous
