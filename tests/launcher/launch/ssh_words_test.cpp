#include "launcher/launch/ssh_words.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::launch {
namespace {

TEST(SshWords, AreCauses) {
  const std::pair<const char*, Cause> cases[] = {
      {"ssh: connect to host a port 22: Connection refused", Cause::refused},
      {"ssh: connect to host a port 22: Connection timed out", Cause::silent},
      {"ssh: connect to host a port 22: No route to host", Cause::silent},
      {"ssh: Could not resolve hostname a: Name or service not known", Cause::unresolved},
      {"kex_exchange_identification: Connection closed by remote host",
       Cause::closed_before_banner},
      {"Connection timed out during banner exchange", Cause::silent},
      {"No ED25519 host key is known for a and you have requested strict checking. Host key "
       "verification failed.",
       Cause::host_key_unknown},
      {"Host key for a has changed and you have requested strict checking. Host key verification "
       "failed.",
       Cause::host_key_changed},
      {"root@a: Permission denied (publickey).", Cause::auth_refused},
      {"/root/.ssh/config: line 1: Bad configuration option: x", Cause::ssh_config},
  };
  for (const auto& [said, cause] : cases) EXPECT_EQ(cause_in(said), cause) << said;
  EXPECT_EQ(cause_in("bash: exec: /bin/sh: not found"), std::nullopt);
}

TEST(SshWords, SayWhatLibsshCannotDo) {
  EXPECT_NE(beyond_libssh("hostname a\ncertificatefile ~/c\n"), "");
  EXPECT_NE(beyond_libssh("pkcs11provider /usr/lib/p.so\n"), "");
  EXPECT_EQ(beyond_libssh("pkcs11provider none\nhostname a\n"), "");
  EXPECT_EQ(beyond_libssh("hostname a\nport 22\n"), "");
}

}  // namespace
}  // namespace dlaunch::launcher::launch
