#include "protocol/endpoints.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "protocol/ip_bytes.h"
#include "protocol/limits.h"

namespace dlaunch::protocol {
namespace {

using Ranks = std::vector<Listening>;

Ranks ranks_on(std::uint32_t hosts, std::uint32_t workers,
               const std::function<std::string(std::uint32_t)>& address) {
  Ranks ranks;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      ranks.push_back({address(host), static_cast<std::uint16_t>(30'000 + 7 * host + worker)});
    }
  }
  return ranks;
}
std::string ipv4_of(std::uint32_t host) { return ipv4_text(0x0A00'0001U + host); }

void expect_same(const Ranks& ranks, const EndpointList& base) {
  const auto whole = unpack_endpoints(pack_endpoints(ranks), {});
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(*whole, ranks);
  const auto changed = unpack_endpoints(pack_endpoints(ranks, base), base);
  ASSERT_TRUE(changed) << changed.error().text();
  EXPECT_EQ(*changed, ranks);
}

double bytes_per_rank(const Endpoints& packed, const Ranks& ranks) {
  ControllerFrame frame;
  *frame.mutable_assign()->mutable_endpoints() = packed;
  frame.mutable_assign()->set_token(std::string(32, 't'));
  return static_cast<double>(frame.ByteSizeLong()) / static_cast<double>(ranks.size());
}

TEST(Endpoints, TakeAFewBytesForEachOfTwoThousandRanks) {
  const auto alone = ranks_on(2048, 1, ipv4_of);
  EXPECT_LE(bytes_per_rank(pack_endpoints(alone), alone), 6.1);
  const auto eight = ranks_on(256, 8, ipv4_of);
  EXPECT_LE(bytes_per_rank(pack_endpoints(eight), eight), 2.6);
  const auto ipv6 = ranks_on(2048, 1, [](std::uint32_t host) {
    return ipv6_text({0xFD, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<uint8_t>(host >> 8U),
                      static_cast<uint8_t>(host)});
  });
  EXPECT_LE(bytes_per_rank(pack_endpoints(ipv6), ipv6), 22.1);
}

TEST(Endpoints, TakeLessStillWhereTheHostHasTheListOfBefore) {
  const EndpointList base{Generation{3}, ranks_on(2048, 1, ipv4_of)};
  auto ranks = base.ranks;
  EXPECT_LE(pack_endpoints(ranks, base).ByteSizeLong(), 16U);
  ranks[1000] = {"10.9.9.9", 4711};
  EXPECT_LE(pack_endpoints(ranks, base).ByteSizeLong(), 40U) << "one host was replaced";
  expect_same(ranks, base);
  for (auto& rank : ranks) ++rank.port;
  EXPECT_LE(bytes_per_rank(pack_endpoints(ranks, base), ranks), 2.1) << "all listen elsewhere";
  expect_same(ranks, base);
}

TEST(Endpoints, AreTheSameAsChangesAndAsAWhole) {
  const std::vector<Ranks> lists = {
      {},
      {{"10.0.0.1", 1}},
      {{"10.0.0.1", 1}, {"10.0.0.1", 2}, {"10.0.0.2", 65'535}},
      {{"fd00::1", 1}, {"10.0.0.1", 0}, {"gpu04", 3}, {"fe80::1%eth0", 4}, {"", 5}},
      {{"0.0.0.0", 1}, {"255.255.255.255", 2}, {"010.0.0.1", 3}, {"FD00::1", 4}, {"::", 5}},
      ranks_on(9, 3, ipv4_of),
      ranks_on(9, 2, ipv4_of),
      ranks_on(7, 3, [](std::uint32_t host) { return ipv4_of(host < 3 ? host : host + 2); }),
      ranks_on(6, 1, [](std::uint32_t host) { return ipv4_of(5 - host); }),
      ranks_on(6, 1, [](std::uint32_t) { return std::string("127.0.0.1"); }),
  };
  for (const auto& ranks : lists) {
    for (const auto& base : lists) {
      SCOPED_TRACE(std::to_string(base.size()) + " ranks, then " + std::to_string(ranks.size()));
      expect_same(ranks, {Generation{1}, base});
    }
  }
}

TEST(Endpoints, OfAListThatIsNotHeldAreRefused) {
  const EndpointList base{Generation{3}, ranks_on(4, 1, ipv4_of)};
  const auto packed = pack_endpoints(base.ranks, base);
  EXPECT_FALSE(unpack_endpoints(packed, {}));
  EXPECT_FALSE(unpack_endpoints(packed, {Generation{2}, base.ranks}));
  EXPECT_FALSE(unpack_endpoints(packed, {Generation{3}, ranks_on(3, 1, ipv4_of)}));
}

TEST(Endpoints, ThatContradictThemselvesAreRefused) {
  const EndpointList base{Generation{1}, ranks_on(4, 2, ipv4_of)};
  auto other = base.ranks;
  other[3] = {"fd00::9", 9};
  other[5] = {"gpu09", 9};
  const std::vector<std::function<void(Endpoints&)>> spoils = {
      [](Endpoints& e) { e.mutable_ports()->pop_back(); },
      [](Endpoints& e) { e.mutable_ports()->append("ab"); },
      [](Endpoints& e) { e.mutable_ports()->clear(); },
      [](Endpoints& e) { e.add_ipv4(1); },
      [](Endpoints& e) { e.mutable_ipv4()->RemoveLast(); },
      [](Endpoints& e) { e.mutable_ipv6()->pop_back(); },
      [](Endpoints& e) { e.mutable_ipv6()->push_back('x'); },
      [](Endpoints& e) { e.add_texts("gpu10"); },
      [](Endpoints& e) { e.mutable_texts()->Clear(); },
      [](Endpoints& e) { e.set_texts(0, std::string(kAddressBytesMax + 1, 'a')); },
      [](Endpoints& e) { e.mutable_ranks()->Clear(); },
      [](Endpoints& e) { e.set_ranks(0, 0); },
      [](Endpoints& e) { e.set_ranks(0, 0xFFFF'FFFF); },
      [](Endpoints& e) { e.set_ranks(0, kRanksMax + 1); },
      [](Endpoints& e) {
        for (int i = 0; i < 100; ++i) e.add_ranks(1);
      },
      [](Endpoints& e) { e.add_place_runs(1); },
      [](Endpoints& e) { e.add_port_runs(1); },
      [](Endpoints& e) {
        for (const auto number : {0xFFFF'FFFFU, 0xFFFF'FFFFU, 0U}) e.add_place_runs(number);
      },
      [](Endpoints& e) {
        for (const auto number : {0U, 0U, 0xFFFF'FFFFU}) e.add_place_runs(number);
      },
      [](Endpoints& e) {
        for (const auto number : {0U, 0xFFFF'FFFFU}) e.add_port_runs(number);
      },
      [](Endpoints& e) {
        for (const auto number : {1U, 0U}) e.add_port_runs(number);
      },
  };
  for (std::size_t i = 0; i < spoils.size(); ++i) {
    for (const bool whole : {true, false}) {
      auto packed = whole ? pack_endpoints(other) : pack_endpoints(other, base);
      ASSERT_TRUE(unpack_endpoints(packed, base));
      spoils[i](packed);
      EXPECT_FALSE(unpack_endpoints(packed, base)) << "spoilt by " << i << ", whole " << whole;
    }
  }
}

TEST(Endpoints, KeepNoPortOfAPlaceThatIsNew) {
  const EndpointList base{Generation{1}, {{"10.0.0.1", 1}, {"10.0.0.2", 2}}};
  auto packed = pack_endpoints({{"10.0.0.1", 1}, {"10.0.0.3", 2}}, base);
  ASSERT_EQ(packed.port_runs_size(), 2);
  packed.set_port_runs(0, 2);
  packed.set_port_runs(1, 0);
  packed.clear_ports();
  EXPECT_FALSE(unpack_endpoints(packed, base));
}

TEST(IpBytes, AreReadFromTheShortestTextOnly) {
  for (const auto* text : {"0.0.0.0", "10.0.0.1", "255.255.255.255"}) {
    const auto address = ipv4_from_text(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(ipv4_text(*address), text);
  }
  for (const auto* text : {"", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.", "+1.2.3.4",
                           " 1.2.3.4", "1.2.3.4 ", "::1"}) {
    EXPECT_FALSE(ipv4_from_text(text)) << text;
  }
  for (const auto* text : {"::", "::1", "1::", "fd00::2", "1:2:3:4:5:6:7:8", "1:0:0:2::3",
                           "1:0:2:3:4:5:6:7", "ffff:ffff::ffff:ffff", "2001:db8:0:1:1:1:1:1"}) {
    const auto address = ipv6_from_text(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(ipv6_text(*address), text);
  }
  for (const auto* text : {"", ":", ":::", "1", "1:2", "::1::2", "1:2:3:4:5:6:7:8:9",
                           "1::2:", "FD00::1", "0:0:0:0:0:0:0:1", "1:2:3:4:5:6:7::", "fe80::1%eth0",
                           "::ffff:10.0.0.1", "12345::", "::g", "1:2:3:4::5:6:7:8"}) {
    EXPECT_FALSE(ipv6_from_text(text)) << text;
  }
}

}  // namespace
}  // namespace dlaunch::protocol
