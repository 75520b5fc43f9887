// What a login sets, asked of real shells.
#include "supervisor/host/io/login_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace dlaunch::supervisor::host {
namespace {

class LoginEnvironment : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/dlaunch-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    home_ = name;
    for (const char* variable : {"HOME", "SHELL"}) {
      const char* value = std::getenv(variable);
      before_[variable] = value == nullptr ? "" : value;
    }
    ::setenv("HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
    std::filesystem::remove_all(home_);
  }
  void profile(const std::string& text) const { std::ofstream(home_ + "/.profile") << text; }

  std::string home_;
  std::map<std::string, std::string> before_;
};

TEST_F(LoginEnvironment, IsThatOfTheUsersProfileWhateverElseItPrints) {
  profile("echo welcome; printf 'dlaunch-environment'; export SITE='a b\nc'\n");
  for (const char* shell : {"/bin/sh", "/bin/bash", "/no/such/shell"}) {
    ::setenv("SHELL", shell, 1);
    const auto found = login_environment(DLAUNCH_AGENT, 20s);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->at("SITE"), "a b\nc") << shell;
    EXPECT_EQ(found->at("HOME"), home_);
    EXPECT_FALSE(found->contains("PWD"));
    EXPECT_FALSE(found->contains("SHLVL"));
  }
}

TEST_F(LoginEnvironment, OfAProfileThatWaitsOrEndsIsGivenUp) {
  ::setenv("SHELL", "/bin/sh", 1);
  profile("sleep 100\n");
  const auto slow = login_environment(DLAUNCH_AGENT, 200ms);
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().code, std::errc::timed_out);
  profile("exit 3\n");
  const auto ended = login_environment(DLAUNCH_AGENT, 20s);
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().text().find("/bin/sh"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
