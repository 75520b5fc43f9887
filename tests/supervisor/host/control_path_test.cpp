#include "supervisor/host/control_path.h"

#include <gtest/gtest.h>

namespace dlaunch::supervisor::host {
namespace {

Instant at(milliseconds since) { return Instant{} + 1h + since; }

ControlPath opened() {
  ControlPath path;
  path.set(100ms, 600ms);
  path.opened(at(0ms));
  return path;
}

TEST(ControlPath, IsNeverSilentBeforeTheWelcomeAndWithoutAConnection) {
  ControlPath path;
  path.opened(at(0ms));
  EXPECT_FALSE(path.silent(at(1h)));
  path.set(100ms, 600ms);
  path.closed();
  EXPECT_EQ(path.silent_at(), std::nullopt);
}

TEST(ControlPath, IsSilentAfterHalfOfTheLimit) {
  auto path = opened();
  EXPECT_EQ(path.silent_at(), at(300ms));
  path.heard(0, at(200ms));
  EXPECT_FALSE(path.silent(at(499ms)));
  EXPECT_TRUE(path.silent(at(500ms)));
}

TEST(ControlPath, FramesThatAcknowledgeNothingNewAreSilence) {
  auto path = opened();
  path.sent(1, at(0ms));
  path.heard(1, at(100ms));
  for (auto t = 100ms; t < 700ms; t += 100ms) {
    path.sent(static_cast<std::uint64_t>(t / 100ms) + 1, at(t));
    path.heard(1, at(t));
  }
  EXPECT_TRUE(path.silent(at(700ms))) << "what this host sends does not arrive";
  path.heard(7, at(710ms));
  EXPECT_FALSE(path.silent(at(720ms)));
}

TEST(ControlPath, AStallCountsAnew) {
  auto path = opened();
  path.stalled(at(5s));
  EXPECT_FALSE(path.silent(at(5s + 299ms)));
  EXPECT_TRUE(path.silent(at(5s + 300ms)));
}

}  // namespace
}  // namespace dlaunch::supervisor::host
