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

/// The hosts whose bit is set.
std::set<HostId> subset(const Policy& p, unsigned bits) {
  std::set<HostId> hosts;
  for (std::size_t i = 0; i < p.hosts.size(); ++i) {
    if ((bits >> i & 1U) != 0) hosts.insert(p.hosts[i].id);
  }
  return hosts;
}

TEST(Seats, TheSizeThatIsKeptCountedIsThatOfTheSeatingWhichWouldBeFound) {
  for (const std::uint32_t step : {1U, 2U}) {
    for (const bool spare_first : {true, false}) {
      auto p = policy(2, 3);
      p.hosts_step = step;
      p.spare_first = spare_first;
      Seats seats(p);
      seats.take(*seats.judge({kA, kC, kS, kT}));
      for (unsigned bits = 0; bits < 1U << p.hosts.size(); ++bits) {
        const auto fit = subset(p, bits);
        for (const auto& host : p.hosts) seats.note_fit(host.id, fit.contains(host.id));
        ASSERT_EQ(seats.fit(), fit);
        for (unsigned out = 0; out < 1U << p.hosts.size(); ++out) {
          auto left = fit;
          const auto without = subset(p, out);
          for (const auto host : without) left.erase(host);
          const auto seating = seats.judge(left);
          EXPECT_EQ(seats.size(without), seating ? seating->members.size() : 0U)
              << bits << " without " << out;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dlaunch::rendezvous
