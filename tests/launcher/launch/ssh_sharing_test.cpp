#include "launcher/launch/ssh_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::launcher::launch {
namespace {

using testing::ElementsAre;
using testing::Optional;

SshAnswer answer(const std::string& config) {
  SshAnswer answer{"gpu01", "host gpu01\nuser ann\nhostname gpu01\nmacs hmac-sha1\n", {}, true};
  answer.can_be_shared = add_host_lines(config, answer.host_lines);
  return answer;
}

TEST(SshSharing, ReadsInTheLogWhichFilesOpenSshRead) {
  EXPECT_THAT(
      files_read("OpenSSH_9.2p1 Debian\r\ndebug1: Reading configuration data /a b/config\r\n"
                 "debug1: x\ndebug1: Reading configuration data /etc/ssh/ssh_config\n"),
      Optional(ElementsAre("/a b/config", "/etc/ssh/ssh_config")));
  EXPECT_EQ(files_read("another program\n"), std::nullopt);
}

TEST(SshSharing, AnswersForHostsThatTheSamePatternsMean) {
  const auto shared = answer("# Host x\nHost gpu* !gpu07\n  User ann\nhost=login\nHost *\n");
  EXPECT_THAT(settings_for(shared, "gpu02"),
              Optional(std::string("host gpu02\nuser ann\nhostname gpu02\nmacs hmac-sha1\n")));
  EXPECT_EQ(settings_for(shared, "gpu07"), std::nullopt) << "other patterns mean it";
  EXPECT_EQ(settings_for(shared, "login"), std::nullopt);
  EXPECT_EQ(settings_for(shared, "GPU02"), std::nullopt) << "OpenSSH makes it small";
}

TEST(SshSharing, AsksForEachHostWhereHostsMayDifferInOtherWays) {
  EXPECT_EQ(settings_for(answer("Match exec \"test %n = gpu02\"\n"), "gpu02"), std::nullopt);
  EXPECT_EQ(settings_for(answer("CanonicalizeHostname yes\n"), "gpu02"), std::nullopt);
  EXPECT_EQ(settings_for(answer("Host \"gpu*\"\n"), "gpu02"), std::nullopt);
  auto other = answer("");
  other.settings = "host gpu01\nhostname gpu01.cluster\n";
  EXPECT_EQ(settings_for(other, "gpu02"), std::nullopt) << "HostName made it of the name";
  other.settings = "host gpu01\nhostname gpu01\nidentityfile ~/keys/gpu01\n";
  EXPECT_EQ(settings_for(other, "gpu02"), std::nullopt);
  other.settings = "host gpu01\nhostname 10.0.0.1\n";
  EXPECT_EQ(settings_for(other, "gpu02"), std::nullopt);
  EXPECT_EQ(settings_for(other, "gpu01"), other.settings);
}

TEST(SshSharing, KnowsOpenSshsPatterns) {
  EXPECT_TRUE(matches("gpu0? other", "gpu01"));
  EXPECT_FALSE(matches("gpu0?", "gpu011"));
  EXPECT_TRUE(matches("*.cluster", "a.cluster"));
  EXPECT_FALSE(matches("* !a*", "abc"));
  EXPECT_FALSE(matches("!a*", "b")) << "only what is wanted by some pattern";
}

}  // namespace
}  // namespace dlaunch::launcher::launch
