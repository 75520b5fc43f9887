#include "launcher/config/address.h"

#include <gtest/gtest.h>

#include <string>

namespace dlaunch::launcher::config {
namespace {

TEST(Address, KnowsNumericAddresses) {
  for (const char* good : {"10.0.0.1", "255.255.255.255", "::", "::1", "fe80::1%eth0",
                           "2001:db8:0:1:2:3:4:5", "2001:db8::5", "::ffff:10.0.0.1"}) {
    EXPECT_TRUE(is_numeric_address(good)) << good;
  }
  for (const char* bad : {"", "10.0.0", "10.0.0.256", "10.0.0.1.2", "010.0.0.1", "10.0.0.1 ",
                          "10..0.1", "gpu01", ":", ":::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
                          "2001::db8::1", "12345::", "fe80::1%", "g::1", "1:2:3:4:5:6:7:8::"}) {
    EXPECT_FALSE(is_numeric_address(bad)) << bad;
  }
}

TEST(Address, TellsNamesFromBrokenAddresses) {
  EXPECT_TRUE(is_address("gpu01.example.org"));
  EXPECT_TRUE(is_address("node_1-a"));
  EXPECT_TRUE(is_address("10.0.0.1"));
  EXPECT_FALSE(is_address("10.0.0.300"));
  EXPECT_FALSE(is_address("a b"));
  EXPECT_FALSE(is_address(std::string(254, 'a')));
}

TEST(Address, NothingThatSshCouldTakeForAnOptionOrShellText) {
  for (const char* evil : {"-oProxyCommand=x", "a;b", "$(x)", "a`b`", "a\nb", "a'b", "a|b"}) {
    EXPECT_FALSE(is_address(evil)) << evil;
    EXPECT_FALSE(is_user_name(evil)) << evil;
    EXPECT_FALSE(is_jump(evil)) << evil;
    EXPECT_FALSE(is_interface_name(evil)) << evil;
  }
}

TEST(Address, TakesJumpsAsSshHasThem) {
  for (const char* good : {"bastion", "ann@bastion", "ann@bastion:2222", "a,b@c,d:22", "none",
                           "[fe80::1]:22", "ann@10.0.0.1"}) {
    EXPECT_TRUE(is_jump(good)) << good;
  }
  for (const char* bad : {"", "a,", "@a", "a:", "a:99999", "a:x", "[10.0.0.1]", "[::1"}) {
    EXPECT_FALSE(is_jump(bad)) << bad;
  }
}

TEST(Address, KnowsInterfaces) {
  EXPECT_TRUE(is_interface_name("ib0"));
  EXPECT_TRUE(is_interface_name("bond0.12"));
  EXPECT_FALSE(is_interface_name("sixteen-letters!"));
  EXPECT_FALSE(is_interface_name("../../etc"));
}

}  // namespace
}  // namespace dlaunch::launcher::config
