#include "launcher/controller/io/listen_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::launcher::controller {
namespace {

using testing::ElementsAre;

TEST(ListenAddresses, ALocalHostAloneUsesLoopback) {
  config::HostSpec here;
  here.transport = config::Transport::local;
  EXPECT_THAT(candidates({{"127.0.0.1"}, {}, {}}, here), ElementsAre("127.0.0.1"));
}

TEST(ListenAddresses, ALocalHostBesideOthersIsReachedFromThere) {
  config::HostSpec here;
  here.transport = config::Transport::local;
  const ListenAddresses addresses{{"10.0.0.1", "127.0.0.1"}, {"10.0.0.1"}, {{"gpu01", "10.0.0.1"}}};
  EXPECT_THAT(candidates(addresses, here), ElementsAre("10.0.0.1", "127.0.0.1"));
}

TEST(ListenAddresses, ATranslatorsAddressIsNotForLocalHosts) {
  config::HostSpec here;
  here.transport = config::Transport::local;
  EXPECT_THAT(candidates({{"0.0.0.0"}, {"203.0.113.7"}, {}}, here), ElementsAre("127.0.0.1"));
}

}  // namespace
}  // namespace dlaunch::launcher::controller
