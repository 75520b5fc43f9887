// Ports for a program's rendezvous.
#include "supervisor/host/io/pick_port.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <set>
#include <vector>

namespace dlaunch::supervisor::host {
namespace {

using boost::asio::ip::tcp;

TEST(PickPort, AnyWhereNoRangeIsGivenAndNoneWhereTheAddressIsNotOurs) {
  EXPECT_GT(pick_port("127.0.0.1", {}, 0), 0U);
  EXPECT_EQ(pick_port("192.0.2.1", {40'000, 40'100}, 0), 0U);
  EXPECT_EQ(pick_port("no address", {}, 0), 0U);
}

TEST(PickPort, IsOfTheRangeAndAnotherEachTime) {
  const PortRange range{29'600, 29'899};
  std::set<std::uint32_t> seen;
  std::uint32_t port = 0;
  for (int i = 0; i < 20; ++i) {
    port = pick_port("127.0.0.1", range, port);
    EXPECT_GE(port, range.first);
    EXPECT_LE(port, range.last);
    EXPECT_TRUE(seen.insert(port).second) << port;
  }
}

TEST(PickPort, LeavesOutWhatOthersListenOn) {
  boost::asio::io_context context;
  std::vector<tcp::acceptor> others;
  const auto loopback = boost::asio::ip::address_v4::loopback();
  others.emplace_back(context, tcp::endpoint(loopback, 0));
  const std::uint32_t first = others.front().local_endpoint().port();
  const PortRange range{first, first + 1};
  const auto port = pick_port("127.0.0.1", range, first);
  if (port == 0) GTEST_SKIP() << "somebody else has the second port";
  EXPECT_EQ(port, first + 1);
  others.emplace_back(context, tcp::endpoint(loopback, static_cast<std::uint16_t>(port)));
  EXPECT_EQ(pick_port("127.0.0.1", range, 0), 0U);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
