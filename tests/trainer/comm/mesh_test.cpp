// Who gets into a mesh and who does not.
#include "trainer/comm/io/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/trainer/comm/mesh_fixture.h"
#include "trainer/comm/handshake.h"
#include "trainer/comm/io/mesh_connector.h"

namespace dlaunch::comm {
namespace {

using testing::HasSubstr;

/// For what must run into its limit; long enough for a busy machine to do everything else.
constexpr milliseconds kShortLimit = 400ms;

void expect_usable(Communicator& rank) {
  const auto met = rank.barrier();
  EXPECT_TRUE(met) << met.error().error.text();
}

FileDescriptor connected_stranger(const MeshListener& listener) {
  auto socket = start_connect(listener.address(), listener.port());
  EXPECT_TRUE(socket);
  pollfd writable{socket->get(), POLLOUT, 0};
  EXPECT_EQ(::poll(&writable, 1, 10'000), 1);
  EXPECT_TRUE(connect_outcome(*socket));
  return std::move(*socket);
}

void say(const FileDescriptor& socket, const std::string& text) {
  EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

TEST(Mesh, OfOneRankNeedsNobody) {
  TestMesh mesh(1);
  mesh.run([](Communicator& rank) {
    expect_usable(rank);
    std::vector<float> buffer{1.0F, 2.0F};
    ASSERT_TRUE(rank.all_reduce(buffer));
    EXPECT_EQ(buffer, (std::vector<float>{1.0F, 2.0F}));
    EXPECT_EQ(rank.bytes_sent(), 0U);
  });
}

TEST(Mesh, ConnectsOverIpVersion6) {
  auto listener = MeshListener::open("::1");
  if (!listener) GTEST_SKIP() << "no IPv6 loopback here: " << listener.error().text();
  auto second = MeshListener::open("::1");
  ASSERT_TRUE(second);
  TestMesh mesh(2);
  const auto settings_of = [&](std::uint32_t rank) {
    MeshSettings settings = mesh.settings(rank);
    settings.endpoints = {{Rank{0}, "::1", listener->port()}, {Rank{1}, "::1", second->port()}};
    return settings;
  };
  std::thread other([&] {
    auto rank = connect_mesh(*second, settings_of(1), mesh.abort(1));
    ASSERT_TRUE(rank) << rank.error().error.text();
    expect_usable(**rank);
  });
  auto rank = connect_mesh(*listener, settings_of(0), mesh.abort(0));
  EXPECT_TRUE(rank);
  if (rank) expect_usable(**rank);
  other.join();
}

TEST(Mesh, IsNotDisturbedByStrangers) {
  TestMesh mesh(3);
  std::vector<FileDescriptor> strangers;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    strangers.push_back(connected_stranger(mesh.listener(rank)));
    say(strangers.back(), "GET / HTTP/1.1\r\nHost: somebody.who.scans.ports.example.org\r\n\r\n");
    strangers.push_back(connected_stranger(mesh.listener(rank)));
    say(strangers.back(), "x");
    FileDescriptor gone = connected_stranger(mesh.listener(rank));
  }
  mesh.run(expect_usable);
}

TEST(Mesh, ComesUpThroughACrowdOfSilentStrangersLargerThanItKeeps) {
  TestMesh mesh(2);
  std::vector<FileDescriptor> crowd;
  for (std::size_t i = 0; i < kHalfOpenMax + 100; ++i) {
    crowd.push_back(connected_stranger(mesh.listener(1)));
  }
  mesh.run(expect_usable);
}

TEST(Mesh, RefusesARankOfAnOlderGenerationAndGoesOn) {
  TestMesh mesh(2);
  MeshSettings stale = mesh.settings(0);
  stale.generation = Generation{6};
  const MeshIdentity identity{
      stale.rank, 2, stale.generation, stale.group, stale.token, connections_for(2), kStripeBytes};
  const FileDescriptor old = connected_stranger(mesh.listener(1));
  auto hello = Handshake::dial(identity, Rank{1}, Nonce{});
  const auto bytes = hello.take_output();
  say(old, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  mesh.run(expect_usable);

  std::vector<std::byte> answer(hello.wanted_bytes());
  pollfd readable{old.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 30'000), 1);
  ASSERT_EQ(::recv(old.get(), answer.data(), answer.size(), MSG_WAITALL),
            static_cast<ssize_t>(answer.size()));
  hello.receive(answer);
  EXPECT_TRUE(hello.refused());
  EXPECT_EQ(hello.reason(), "it belongs to generation 7, this is generation 6");
}

TEST(Mesh, TakesTheNewConnectionOfARankThatLostItsFirst) {
  TestMesh mesh(3);
  std::vector<std::thread> threads;
  const auto join = [&](std::uint32_t rank) {
    threads.emplace_back([&, rank] {
      auto connected = connect_mesh(mesh.listener(rank), mesh.settings(rank), mesh.abort(rank));
      ASSERT_TRUE(connected) << connected.error().error.text();
      expect_usable(**connected);
    });
  };
  join(1);
  {
    // Rank 0 proves itself to rank 1 and is gone before the mesh is complete.
    const MeshSettings settings = mesh.settings(0);
    const MeshIdentity identity{
        settings.rank,      3,           settings.generation, settings.group, settings.token,
        connections_for(3), kStripeBytes};
    const FileDescriptor first = connected_stranger(mesh.listener(1));
    auto handshake = Handshake::dial(identity, Rank{1}, Nonce{});
    while (!handshake.established()) {
      const auto said = handshake.take_output();
      say(first, std::string(reinterpret_cast<const char*>(said.data()), said.size()));
      std::vector<std::byte> answer(handshake.wanted_bytes());
      for (std::size_t got = 0; got < answer.size();) {
        pollfd readable{first.get(), POLLIN, 0};
        ASSERT_EQ(::poll(&readable, 1, 30'000), 1);
        const auto count = ::recv(first.get(), answer.data() + got, answer.size() - got, 0);
        ASSERT_GT(count, 0);
        got += static_cast<std::size_t>(count);
      }
      handshake.receive(answer);
      ASSERT_FALSE(handshake.refused()) << handshake.reason();
    }
  }
  join(0);
  join(2);
  for (std::thread& thread : threads) thread.join();
}

/// Connects two ranks whose settings do not fit and gives both failures' texts.
std::vector<std::string> failures_of(const std::function<void(MeshSettings&)>& spoil_rank_one) {
  TestMesh mesh(2);
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      MeshSettings settings = mesh.settings(rank);
      settings.connect_limit = kShortLimit;
      if (rank == 1) spoil_rank_one(settings);
      const auto connected = connect_mesh(mesh.listener(rank), settings, mesh.abort(rank));
      ASSERT_FALSE(connected);
      EXPECT_EQ(connected.error().kind, FailureKind::timed_out);
      EXPECT_EQ(connected.error().suspect, Rank{1 - rank});
      texts[rank] = connected.error().error.text();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return texts;
}

TEST(Mesh, RefusesAWrongTokenOnBothSides) {
  const auto texts = failures_of([](MeshSettings& settings) {
    settings.token = test_token("another secret that is long enough");
  });
  EXPECT_THAT(texts[0], HasSubstr("does not know the token of this generation"));
  EXPECT_THAT(texts[1], HasSubstr("rank 0 at 127.0.0.1"));
  EXPECT_THAT(texts[1], HasSubstr("did not connect to this rank"));
}

TEST(Mesh, RefusesAnotherGeneration) {
  const auto texts =
      failures_of([](MeshSettings& settings) { settings.generation = Generation{8}; });
  EXPECT_THAT(texts[0], HasSubstr("it belongs to generation 8, this is generation 7"));
}

TEST(Mesh, RefusesAnotherNumberOfConnections) {
  const auto texts = failures_of([](MeshSettings& settings) { settings.connections = 2; });
  EXPECT_THAT(texts[0], HasSubstr("another number of connections"));
}

TEST(Mesh, ManyRanksHaveFewConnectionsWithEach) {
  EXPECT_EQ(connections_for(2), 4U);
  EXPECT_EQ(connections_for(64), 4U);
  EXPECT_EQ(connections_for(65), 2U);
  EXPECT_EQ(connections_for(128), 2U);
  EXPECT_EQ(connections_for(129), 1U);
}

TEST(Mesh, HearsWhyARankOnSeveralConnectionsLeftBeforeItsOwnMeshWasComplete) {
  for (int turn = 0; turn < 20; ++turn) {
    TestMesh mesh(3, LinkKind::striped);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        auto connected = connect_mesh(mesh.listener(rank), mesh.settings(rank), mesh.abort(rank));
        ASSERT_TRUE(connected) << connected.error().error.text();
        if (rank == 0) {
          mesh.abort(0)->set("host n1 was lost");
          ASSERT_FALSE((*connected)->barrier());
          return;
        }
        const auto met = (*connected)->barrier();
        ASSERT_FALSE(met);
        EXPECT_EQ(met.error().kind, FailureKind::aborted) << met.error().error.text();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Mesh, SaysWhoIsMissingWhenNobodyListensThere) {
  TestMesh mesh(2);
  MeshSettings settings = mesh.settings(0);
  settings.connect_limit = kShortLimit;
  { MeshListener closed = std::move(mesh.listener(1)); }
  const auto connected = connect_mesh(mesh.listener(0), settings, mesh.abort(0));
  ASSERT_FALSE(connected);
  EXPECT_THAT(connected.error().error.doing, HasSubstr("rank 1 at 127.0.0.1"));
  EXPECT_THAT(connected.error().error.doing, HasSubstr("Connection refused"));
}

TEST(Mesh, StopsWaitingForAMissingRankAtTheAbort) {
  TestMesh mesh(2);
  std::thread aborter([&] { mesh.abort(0)->set("host n1 was lost"); });
  const auto connected = connect_mesh(mesh.listener(0), mesh.settings(0), mesh.abort(0));
  aborter.join();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().kind, FailureKind::aborted);
  EXPECT_THAT(connected.error().error.doing, HasSubstr("host n1 was lost"));
}

TEST(Mesh, RefusesSettingsThatCannotBe) {
  TestMesh mesh(2);
  const auto refused = [&](const std::function<void(MeshSettings&)>& spoil) {
    MeshSettings settings = mesh.settings(0);
    spoil(settings);
    const auto connected = connect_mesh(mesh.listener(0), settings, mesh.abort(0));
    return !connected && connected.error().kind == FailureKind::local;
  };
  EXPECT_TRUE(refused([](MeshSettings& settings) { settings.rank = Rank{2}; }));
  EXPECT_TRUE(refused([](MeshSettings& settings) { settings.world_size = 0; }));
  EXPECT_TRUE(refused([](MeshSettings& settings) { settings.endpoints.pop_back(); }));
  EXPECT_TRUE(refused([](MeshSettings& settings) { settings.endpoints[1].rank = Rank{0}; }));
  EXPECT_TRUE(refused([](MeshSettings& settings) { settings.token.resize(8); }));
  EXPECT_TRUE(refused([](MeshSettings& settings) { settings.connections = 17; }));
}

TEST(MeshListener, WantsANumericAddressOfThisMachine) {
  EXPECT_FALSE(MeshListener::open("localhost"));
  EXPECT_FALSE(MeshListener::open(""));
  const auto elsewhere = MeshListener::open("192.0.2.1");
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().text(), HasSubstr("192.0.2.1"));
}

TEST(MeshListener, TakesAFreePortOfTheRangeAndSaysWhenThereIsNone) {
  const auto any = MeshListener::open("127.0.0.1");
  ASSERT_TRUE(any);
  const auto first = static_cast<std::uint16_t>(any->port());
  const PortRange ports{first, static_cast<std::uint16_t>(first + 3)};
  std::vector<MeshListener> listeners;
  std::set<std::uint16_t> seen{first};
  for (std::uint32_t begin = 0; begin < 3; ++begin) {
    auto listener = MeshListener::open("127.0.0.1", ports, begin);
    if (!listener) GTEST_SKIP() << "somebody else has a port of ours";
    EXPECT_TRUE(seen.insert(listener->port()).second);
    EXPECT_LE(listener->port(), ports.last);
    listeners.push_back(std::move(*listener));
  }
  const auto none = MeshListener::open("127.0.0.1", ports);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, std::errc::address_in_use);
}

TEST(Token, IsReadFromHexOfEnoughBytes) {
  EXPECT_EQ(token_from_hex("00ff10ABcdef00112233445566778899")->at(3), std::byte{0xab});
  EXPECT_FALSE(token_from_hex("00ff"));
  EXPECT_FALSE(token_from_hex("00ff10ABcdef0011223344556677889"));
  EXPECT_FALSE(token_from_hex("00ff10ABcdef0011223344556677889g"));
  EXPECT_FALSE(token_from_hex(" 0ff10ABcdef00112233445566778899"));
}

}  // namespace
}  // namespace dlaunch::comm
