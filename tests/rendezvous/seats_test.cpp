#include "rendezvous/seats.h"

#include <gtest/gtest.h>

namespace dlaunch::rendezvous {
namespace {

constexpr HostId kA{0}, kB{1}, kC{2}, kS{3}, kT{4};
using Hosts = std::vector<HostId>;

Policy policy(std::uint32_t hosts_min, std::uint32_t hosts_max) {
  Policy p;
  p.hosts = {{kA, "a"}, {kB, "b"}, {kC, "c"}, {kS, "s", true}, {kT, "t", true}};
  p.hosts_min = hosts_min;
  p.hosts_max = hosts_max;
  return p;
}

TEST(Seats, FollowTheFileAndLeaveSparesOut) {
  const Seats seats(policy(3, 3));
  EXPECT_EQ(seats.judge({kA, kB, kC, kS})->members, (Hosts{kA, kB, kC}));
}

TEST(Seats, ASpareTakesTheSeatOfTheLostHostAndKeepsIt) {
  Seats seats(policy(3, 3));
  const auto seating = seats.judge({kA, kC, kS, kT});
  ASSERT_TRUE(seating);
  EXPECT_EQ(seating->members, (Hosts{kA, kS, kC}));
  EXPECT_EQ(seating->replaced, (std::vector<std::pair<HostId, HostId>>{{kB, kS}}));
  seats.take(*seating);
  EXPECT_EQ(seats.judge({kA, kB, kC, kS})->members, (Hosts{kA, kS, kC})) << "b is a spare now";
  EXPECT_EQ(seats.judge({kA, kB, kC})->members, (Hosts{kA, kB, kC}));
}

TEST(Seats, WithoutSparesTheJobShrinksAndTheSeatStaysReserved) {
  Seats seats(policy(2, 3));
  const auto seating = seats.judge({kA, kC});
  ASSERT_TRUE(seating);
  EXPECT_EQ(seating->members, (Hosts{kA, kC}));
  seats.take(*seating);
  EXPECT_EQ(seats.judge({kA, kB, kC})->members, (Hosts{kA, kB, kC}));
}

TEST(Seats, BelowTheMinimumThereIsNone) { EXPECT_FALSE(Seats(policy(3, 3)).judge({kA, kC})); }

TEST(Seats, ComeInMultiplesWhereTheProgramNeedsThem) {
  auto p = policy(2, 3);
  p.hosts_step = 2;
  EXPECT_EQ(Seats(p).judge({kA, kB, kC})->members, (Hosts{kA, kB}));
}

TEST(Seats, ASpareThatTheMultipleLeavesOutReplacesNobody) {
  auto wish = policy(2, 3);
  wish.hosts_step = 2;
  const auto seating = Seats(wish).judge({kA, kB, kS});
  ASSERT_TRUE(seating);
  EXPECT_EQ(seating->members, (Hosts{kA, kB}));
  EXPECT_TRUE(seating->replaced.empty());
}

TEST(Seats, SurplusHostsAreSpares) {
  Seats seats(policy(2, 2));
  EXPECT_EQ(seats.judge({kA, kB, kC})->members, (Hosts{kA, kB}));
  EXPECT_EQ(seats.judge({kA, kC})->members, (Hosts{kA, kC}));
}

}  // namespace
}  // namespace dlaunch::rendezvous
