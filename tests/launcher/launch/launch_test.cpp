#include "launcher/launch/launch.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::launch {
namespace {

Policy policy_for(std::uint32_t hosts) {
  Policy policy;
  for (std::uint32_t number = 0; number < hosts; ++number) {
    const std::string name = "h" + std::to_string(number);
    policy.hosts.push_back({HostId{number}, name, name});
  }
  return policy;
}

template <class Wanted>
std::vector<Wanted> only(const std::vector<Command>& commands) {
  std::vector<Wanted> found;
  for (const Command& command : commands) {
    if (const auto* wanted = std::get_if<Wanted>(&command)) found.push_back(*wanted);
  }
  return found;
}

TEST(Launch, GivesTheFirstDialTheWholeConnectTimeoutAndLaterOnesTheRest) {
  Rng rng(1);
  Launch launch(policy_for(1), rng);
  const auto first = only<Plant>(launch.step(Instant{}, StartAll{}));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].connect_within, 10s);
  EXPECT_TRUE(launch.step(Instant{4s}, PlantFailed{HostId{0}, 1, Cause::refused, "x"}).empty());
  const auto due = launch.next_deadline();
  ASSERT_TRUE(due.has_value());
  const auto second = only<Plant>(launch.step(*due, DeadlineDue{}));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].connect_within, Instant{10s} - *due);
}

TEST(Launch, NeverDialsMoreThanTheLimitsAtOnceAndFinishesAThousandHosts) {
  Rng rng(2);
  Policy policy = policy_for(1000);
  for (auto& host : policy.hosts) host.endpoint = "s" + std::to_string(host.id.value % 20);
  Launch launch(policy, rng);
  std::vector<Plant> running = only<Plant>(launch.step(Instant{}, StartAll{}));
  std::size_t planted = 0;
  Instant now{};
  while (!running.empty()) {
    ASSERT_LE(running.size(), 64u);
    std::map<std::string, int> per_server;
    for (const Plant& plant : running) {
      ASSERT_LE(++per_server[policy.hosts[plant.host.value].endpoint], 8);
    }
    const auto chosen = running.begin() + static_cast<std::ptrdiff_t>(rng.below(running.size()));
    const Plant plant = *chosen;
    running.erase(chosen);
    now += 1ms;
    (void)launch.step(now, PlantProgress{plant.host, plant.attempt, Stage::connected});
    planted += only<HostPlanted>(launch.step(now, HelloSeen{plant.host})).size();
    const auto more = only<Plant>(launch.step(now, Planted{plant.host, plant.attempt}));
    running.insert(running.end(), more.begin(), more.end());
  }
  EXPECT_EQ(planted, 1000u);
  EXPECT_FALSE(launch.next_deadline().has_value());
}

TEST(Launch, SaysWhatItWaitsFor) {
  Rng rng(3);
  Launch launch(policy_for(2), rng);
  EXPECT_EQ(launch.view(HostId{0}).state, "idle");
  (void)launch.step(Instant{}, StartAll{});
  EXPECT_EQ(launch.view(HostId{0}).state, "connecting");
  (void)launch.step(Instant{1s}, PlantProgress{HostId{0}, 1, Stage::connected});
  EXPECT_EQ(launch.view(HostId{0}).state, "planting");
  (void)launch.step(Instant{2s}, PlantProgress{HostId{0}, 1, Stage::started});
  EXPECT_EQ(launch.view(HostId{0}).state, "waiting for hello");
  (void)launch.step(Instant{3s}, HelloSeen{HostId{0}});
  EXPECT_EQ(launch.view(HostId{0}).state, "planted");
  (void)launch.step(Instant{3s}, PlantFailed{HostId{1}, 1, Cause::auth_refused, "no key"});
  EXPECT_EQ(launch.view(HostId{1}).state, "backing off");
  EXPECT_EQ(launch.view(HostId{1}).reason, "no key");
  EXPECT_EQ(launch.view(HostId{9}).state, "");
}

TEST(Launch, DropsReportsOfUnknownHostsAndOldAttempts) {
  Rng rng(4);
  Launch launch(policy_for(1), rng);
  (void)launch.step(Instant{}, StartAll{});
  EXPECT_TRUE(launch.step(Instant{1s}, PlantFailed{HostId{5}, 1, Cause::silent, ""}).empty());
  EXPECT_TRUE(launch.step(Instant{1s}, PlantFailed{HostId{0}, 9, Cause::silent, ""}).empty());
  EXPECT_TRUE(launch.step(Instant{1s}, HelloSeen{HostId{5}}).empty());
  EXPECT_EQ(launch.view(HostId{0}).state, "connecting");
}

TEST(Launch, SpreadsTheDialsOfHostsThatWereLostTogether) {
  Rng rng(5);
  Launch launch(policy_for(50), rng);
  for (std::uint32_t number = 0; number < 50; ++number) {
    (void)launch.step(Instant{}, HelloSeen{HostId{number}});
    (void)launch.step(Instant{1s}, Replant{HostId{number}, "lost"});
  }
  std::set<Instant> dials;
  while (dials.size() < 50) {
    const auto due = launch.next_deadline();
    ASSERT_TRUE(due.has_value());
    ASSERT_GE(*due, Instant{9s});
    ASSERT_LE(*due, Instant{11s});
    for (const auto& plant : only<Plant>(launch.step(*due, DeadlineDue{}))) {
      dials.insert(*due);
      (void)launch.step(*due, HelloSeen{plant.host});
    }
  }
}

TEST(Cause, NamesAreAllDifferent) {
  std::set<std::string> names;
  for (int number = 0; number <= static_cast<int>(Cause::cancelled); ++number) {
    names.insert(to_string(static_cast<Cause>(number)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Cause::cancelled) + 1);
}

}  // namespace
}  // namespace dlaunch::launcher::launch
