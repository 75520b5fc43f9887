#include "launcher/launch/user_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::launcher::launch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Where somewhere() {
  return {"gpu03", "10.0.0.3", 2222, "ann", "/local", "the library's words", 10s};
}

TEST(Sentence, NamesTheHostAndKeepsTheLibrarysWordsForEveryCause) {
  for (int number = 0; number <= static_cast<int>(Cause::cancelled); ++number) {
    const std::string text = sentence(static_cast<Cause>(number), somewhere());
    EXPECT_THAT(text, StartsWith("gpu03: "));
    EXPECT_THAT(text, HasSubstr("(the library's words)"));
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(Sentence, SaysTheNextStep) {
  struct Row {
    Cause cause;
    const char* part;
  };
  const Row rows[] = {
      {Cause::unresolved, "`address` in the hosts file"},
      {Cause::refused, "10.0.0.3 port 2222 refused"},
      {Cause::silent, "within 10 s"},
      {Cause::silent, "`ssh -p 2222 ann@10.0.0.3 true`"},
      {Cause::closed_before_banner, "MaxStartups"},
      {Cause::host_key_unknown, "accept-new"},
      {Cause::host_key_changed, "`ssh-keygen -R [10.0.0.3]:2222`"},
      {Cause::auth_refused, "`identity`"},
      {Cause::scratch_full, "/local has no space"},
      {Cause::scratch_read_only, "/local cannot be written"},
      {Cause::scratch_noexec, "noexec"},
      {Cause::scratch_foreign, "belongs to somebody else"},
      {Cause::wrong_architecture, "not built for this machine"},
      {Cause::cannot_dial_back, "`controller_address`"},
      {Cause::agent_failed, "log"},
      {Cause::ssh_config, "`ssh -G 10.0.0.3`"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(sentence(row.cause, somewhere()), HasSubstr(row.part));
  }
}

}  // namespace
}  // namespace dlaunch::launcher::launch
