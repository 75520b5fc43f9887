#include "rendezvous/data_paths.h"

#include <gtest/gtest.h>

namespace dlaunch::rendezvous {
namespace {

constexpr HostId kA{0}, kB{1}, kC{2}, kD{3}, kE{4};
Instant at(milliseconds since) { return Instant{} + 1h + since; }
bool everybody(HostId) { return true; }

/// Hosts in a ring of `hosts`, each probing the next two; those of `cut` reach nobody.
class Ring {
 public:
  explicit Ring(std::uint32_t hosts, const std::set<HostId>& cut = {}) {
    for (std::uint32_t from = 0; from < hosts; ++from) {
      std::vector<PathWord> words;
      for (const std::uint32_t distance : {1U, 2U}) {
        const HostId to{(from + distance) % hosts};
        if (to == HostId{from}) continue;
        const bool fails = cut.contains(to) || cut.contains(HostId{from});
        words.push_back({to, !fails, fails ? 450ms : 0ms});
      }
      paths.report(HostId{from}, at(1s), words);
    }
  }
  [[nodiscard]] std::set<HostId> broken(const DataPaths::Heard& heard = everybody) const {
    std::set<HostId> hosts;
    for (const auto& [host, since] : paths.broken(heard)) hosts.insert(host);
    return hosts;
  }
  DataPaths paths;
};

TEST(DataPaths, AHostOfWhichNobodySpeaksIsUnknown) {
  const DataPaths paths;
  EXPECT_EQ(paths.judge(kA, everybody, {}), DataPath::unknown);
  EXPECT_TRUE(paths.quiet());
}

TEST(DataPaths, OneAnswerIsEnoughAndSilenceTakesAllWhoProbe) {
  DataPaths paths;
  EXPECT_TRUE(paths.report(kA, at(0ms), {{kC, false, 450ms}}));
  EXPECT_EQ(paths.judge(kC, everybody, {}), DataPath::silent) << "one prober is all there is";
  paths.report(kB, at(0ms), {{kC, true, 0ms}});
  EXPECT_EQ(paths.judge(kC, everybody, {}), DataPath::answers);
  paths.report(kB, at(0ms), {{kC, false, 450ms}});
  EXPECT_EQ(paths.judge(kC, everybody, {}), DataPath::silent);
}

TEST(DataPaths, TheWordOfAProberThatIsNotHeardItselfDoesNotCount) {
  DataPaths paths;
  paths.report(kA, at(0ms), {{kC, false, 450ms}});
  paths.report(kB, at(0ms), {{kC, true, 0ms}});
  const auto without_a = [](HostId host) { return host != kA; };
  const auto without_b = [](HostId host) { return host != kB; };
  EXPECT_EQ(paths.judge(kC, without_a, {}), DataPath::answers);
  EXPECT_EQ(paths.judge(kC, without_b, {}), DataPath::silent);
  EXPECT_EQ(paths.judge(kC, [](HostId) { return false; }, {}), DataPath::unknown);
}

TEST(DataPaths, AReportReplacesTheOneBeforeAndSaysWhetherItIsNews) {
  DataPaths paths;
  EXPECT_TRUE(paths.report(kA, at(0ms), {{kB, true, 0ms}, {kC, true, 0ms}}));
  EXPECT_FALSE(paths.report(kA, at(1s), {{kB, true, 0ms}, {kC, true, 0ms}}));
  EXPECT_TRUE(paths.report(kA, at(2s), {{kB, true, 0ms}})) << "it knows nothing of c any more";
  EXPECT_EQ(paths.judge(kC, everybody, {}), DataPath::unknown);
}

TEST(DataPaths, AGoneAgentHasNoWordAndNoneIsLeftAboutIt) {
  DataPaths paths;
  paths.report(kA, at(0ms), {{kB, false, 450ms}});
  paths.report(kB, at(0ms), {{kA, false, 450ms}});
  paths.forget(kB);
  EXPECT_EQ(paths.judge(kA, everybody, {}), DataPath::unknown);
  EXPECT_EQ(paths.judge(kB, everybody, {}), DataPath::unknown);
  EXPECT_TRUE(paths.quiet());
  EXPECT_FALSE(paths.report(kA, at(1s), {}));
}

TEST(DataPaths, TheHostThatFailsTowardsTwoOthersIsTheCulprit) {
  for (std::uint32_t hosts = 3; hosts <= 8; ++hosts) {
    EXPECT_TRUE(Ring(hosts).broken().empty()) << hosts;
    EXPECT_EQ(Ring(hosts, {kB}).broken(), std::set{kB}) << hosts;
  }
}

TEST(DataPaths, TwoCulpritsAreBothFoundAndTheirNeighboursAreNone) {
  EXPECT_EQ(Ring(6, {kB, kD}).broken(), (std::set{kB, kD}));
  EXPECT_EQ(Ring(6, {kB, kC}).broken(), (std::set{kB, kC}));
}

TEST(DataPaths, OneFailingPairNamesNobody) {
  DataPaths paths;
  paths.report(kA, at(0ms), {{kB, false, 450ms}, {kC, true, 0ms}});
  paths.report(kB, at(0ms), {{kC, true, 0ms}, {kA, false, 450ms}});
  paths.report(kC, at(0ms), {{kA, true, 0ms}, {kB, true, 0ms}});
  EXPECT_TRUE(paths.broken(everybody).empty());
  EXPECT_TRUE(Ring(2, {kA}).broken().empty()) << "two hosts: it may be either";
}

TEST(DataPaths, ANetworkThatIsBrokenForMostBreaksNoHost) {
  EXPECT_TRUE(Ring(3, {kA, kB, kC}).broken().empty());
  EXPECT_TRUE(Ring(5, {kA, kB, kC, kD, kE}).broken().empty());
  EXPECT_TRUE(Ring(5, {kA, kC, kD}).broken().empty());
}

TEST(DataPaths, ACulpritsOwnWordOnOthersIsNone) {
  Ring ring(4, {kB});
  ring.paths.report(kA, at(2s), {{kB, false, 450ms}});
  const auto without_c = [](HostId host) { return host != kC; };
  const auto broken = ring.paths.broken(without_c);
  ASSERT_TRUE(broken.contains(kB));
  EXPECT_EQ(ring.paths.judge(kC, without_c, {}), DataPath::silent);
  EXPECT_EQ(ring.paths.judge(kC, without_c, broken), DataPath::unknown) << "b reaches nobody";
}

TEST(DataPaths, BrokenSinceTheFirstSilence) {
  DataPaths paths;
  paths.report(kA, at(1s), {{kB, false, 450ms}});
  paths.report(kC, at(1s + 100ms), {{kB, false, 500ms}});
  paths.report(kD, at(1s), {{kA, true, 0ms}, {kC, true, 0ms}});
  const auto broken = paths.broken(everybody);
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken.at(kB), at(550ms));
}

}  // namespace
}  // namespace dlaunch::rendezvous
