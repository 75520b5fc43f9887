#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/io/ssh_settings.h"

namespace dlaunch::launcher::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kText =
    "host gpu03\nuser ann\nhostname 10.0.0.3\nport 2222\nidentitiesonly yes\n"
    "identityfile ~/.ssh/cluster\nidentityfile %d/keys/%h-%r\n"
    "globalknownhostsfile /etc/ssh/ssh_known_hosts\n"
    "userknownhostsfile /home/ann/.ssh/known_hosts ~/.ssh/known_hosts2\n"
    "identityagent SSH_AUTH_SOCK\n";

TEST(SshSettings, AreReadFromOpenSsh) {
  const SshSettings settings = parse_settings(kText, "/home/ann");
  EXPECT_EQ(settings.host_name, "10.0.0.3");
  EXPECT_EQ(settings.port, 2222);
  EXPECT_EQ(settings.user, "ann");
  EXPECT_TRUE(settings.identities_only);
  EXPECT_THAT(settings.identity_files,
              ElementsAre("/home/ann/.ssh/cluster", "/home/ann/keys/10.0.0.3-ann"));
  EXPECT_THAT(settings.known_hosts,
              ElementsAre("/home/ann/.ssh/known_hosts", "/home/ann/.ssh/known_hosts2",
                          "/etc/ssh/ssh_known_hosts"));
  EXPECT_EQ(settings.known_hosts_new, "/home/ann/.ssh/known_hosts");
  EXPECT_THAT(settings.proxy_command, IsEmpty());
  EXPECT_THAT(settings.beyond_libssh, IsEmpty());
}

TEST(SshSettings, TurnJumpsIntoAProxy) {
  const std::string text = kText;
  EXPECT_EQ(parse_settings(text + "proxyjump bastion\n", "/h").proxy_command,
            "exec ssh -o BatchMode=yes -W '[10.0.0.3]:2222' -- 'ssh://bastion'");
  EXPECT_EQ(parse_settings(text + "proxyjump a,b@c:99\n", "/h").proxy_command,
            "exec ssh -o BatchMode=yes -J 'a' -W '[10.0.0.3]:2222' -- 'ssh://b@c:99'");
  EXPECT_EQ(parse_settings(text + "proxycommand nc %h %p # 100%% %n\n", "/h").proxy_command,
            "nc 10.0.0.3 2222 # 100% gpu03");
  EXPECT_THAT(parse_settings(text + "proxycommand none\nproxyjump none\n", "/h").proxy_command,
              IsEmpty());
}

TEST(SshSettings, NameWhatLibsshCannotDo) {
  const auto settings = parse_settings(std::string(kText) + "certificatefile ~/c\n", "/h");
  EXPECT_THAT(settings.beyond_libssh, HasSubstr("CertificateFile"));
}

TEST(SshSettings, RefuseNamesThatAShellOrOptionParserWouldMisread) {
  for (const char* name : {"-oProxyCommand=x", "a;b", "$(x)", "a b", "`x`", "a'b"}) {
    SshWish wish;
    wish.address = name;
    EXPECT_FALSE(read_settings(wish, Deadline(5s)).has_value()) << name;
  }
}

}  // namespace
}  // namespace dlaunch::launcher::io
