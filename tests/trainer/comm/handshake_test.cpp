#include "trainer/comm/handshake.h"

#include <gtest/gtest.h>

#include "tests/trainer/comm/mesh_fixture.h"

namespace dlaunch::comm {
namespace {

MeshIdentity identity(std::uint32_t rank) {
  return {Rank{rank}, 4, Generation{7}, "main", test_token()};
}

Nonce nonce(int value) {
  Nonce bytes{};
  bytes.fill(static_cast<std::byte>(value));
  return bytes;
}

/// Hands messages to and fro until nobody owes one.
void converse(Handshake& left, Handshake& right) {
  for (int turns = 0; turns < 4; ++turns) {
    const auto said = left.take_output();
    if (!said.empty() && said.size() == right.wanted_bytes()) right.receive(said);
    const auto answered = right.take_output();
    if (!answered.empty() && answered.size() == left.wanted_bytes()) left.receive(answered);
  }
}

std::string refusal(const MeshIdentity& dialler, std::uint32_t to, const MeshIdentity& answerer) {
  auto left = Handshake::dial(dialler, Rank{to}, nonce(1));
  auto right = Handshake::answer(answerer, nonce(2));
  converse(left, right);
  EXPECT_FALSE(left.established());
  EXPECT_FALSE(right.established());
  return std::string(right.refused() ? right.reason() : left.reason());
}

TEST(Handshake, EndsWithBothSidesSureOfEachOther) {
  const auto one = identity(1);
  const auto three = identity(3);
  auto left = Handshake::dial(one, Rank{3}, nonce(1));
  auto right = Handshake::answer(three, nonce(2));
  converse(left, right);
  EXPECT_TRUE(left.established());
  EXPECT_TRUE(right.established());
  EXPECT_EQ(left.other_rank(), Rank{3});
  EXPECT_EQ(right.other_rank(), Rank{1});
}

TEST(Handshake, NeverSendsTheToken) {
  const auto one = identity(1);
  const auto three = identity(3);
  auto left = Handshake::dial(one, Rank{3}, nonce(1));
  auto right = Handshake::answer(three, nonce(2));
  std::string wire;
  for (int turns = 0; turns < 2; ++turns) {
    for (auto [from, to] : {std::pair(&left, &right), std::pair(&right, &left)}) {
      const auto said = from->take_output();
      wire.append(reinterpret_cast<const char*>(said.data()), said.size());
      if (!said.empty()) to->receive(said);
    }
  }
  EXPECT_TRUE(left.established() && right.established());
  EXPECT_EQ(wire.find("the token"), std::string::npos);
}

TEST(Handshake, RefusesAnotherGeneration) {
  auto stale = identity(1);
  stale.generation = Generation{6};
  EXPECT_EQ(refusal(stale, 3, identity(3)), "it belongs to generation 6, this is generation 7");
  EXPECT_EQ(refusal(identity(1), 3, stale), "it belongs to generation 7, this is generation 6");
}

TEST(Handshake, RefusesAnotherRankOrWorldSize) {
  EXPECT_EQ(refusal(identity(1), 2, identity(3)), "it looks for rank 2 of 4, this is rank 3 of 4");
  auto larger = identity(1);
  larger.world_size = 5;
  EXPECT_EQ(refusal(larger, 3, identity(3)), "it looks for rank 3 of 5, this is rank 3 of 4");
  EXPECT_NE(refusal(identity(3), 3, identity(3)), "") << "only lower ranks dial";
}

TEST(Handshake, RefusesAWrongTokenOnEitherSideAndAnotherGroup) {
  auto stranger = identity(1);
  stranger.token = test_token("some other secret that is long enough");
  EXPECT_EQ(refusal(stranger, 3, identity(3)), "it does not know the token of this generation");
  stranger = identity(3);
  stranger.token = test_token("some other secret that is long enough");
  EXPECT_EQ(refusal(identity(1), 3, stranger), "it does not know the token of this generation");
  auto other_group = identity(1);
  other_group.group = "stage-2";
  EXPECT_EQ(refusal(other_group, 3, identity(3)), "it does not know the token of this generation");
}

TEST(Handshake, AgreesOnWhichOfTheirConnectionsItIs) {
  auto one = identity(1);
  auto three = identity(3);
  one.connections = three.connections = 4;
  auto left = Handshake::dial(one, Rank{3}, nonce(1), 2);
  auto right = Handshake::answer(three, nonce(2));
  converse(left, right);
  ASSERT_TRUE(left.established() && right.established());
  EXPECT_EQ(left.connection(), 2U);
  EXPECT_EQ(right.connection(), 2U);

  auto fifth = Handshake::dial(one, Rank{3}, nonce(1), 4);
  auto answerer = Handshake::answer(three, nonce(2));
  converse(fifth, answerer);
  EXPECT_EQ(answerer.reason(), "it makes more connections than it says");
  one.connections = 2;
  EXPECT_EQ(refusal(one, 3, three),
            "it makes 2 connections with each rank, this rank 4, or in other turns");
}

TEST(Handshake, RefusesADialerThatPlaysTheAnswerersProofBack) {
  const auto three = identity(3);
  const auto one = identity(1);
  auto honest = Handshake::dial(one, Rank{3}, nonce(1));
  auto answerer = Handshake::answer(three, nonce(2));
  answerer.receive(honest.take_output());
  const auto answer = answerer.take_output();
  answerer.receive(std::span(answer).last(answerer.wanted_bytes()));
  EXPECT_TRUE(answerer.refused());
}

TEST(Handshake, RefusesAReplayOfAnEarlierConversation) {
  const auto one = identity(1);
  const auto three = identity(3);
  auto dialler = Handshake::dial(one, Rank{3}, nonce(1));
  auto first = Handshake::answer(three, nonce(2));
  const auto hello = dialler.take_output();
  first.receive(hello);
  dialler.receive(first.take_output());
  const auto proof = dialler.take_output();

  auto second = Handshake::answer(three, nonce(3));
  second.receive(hello);
  second.receive(proof);
  EXPECT_TRUE(second.refused());
}

TEST(Handshake, TellsAStrangerNothing) {
  const auto three = identity(3);
  auto answerer = Handshake::answer(three, nonce(2));
  const std::vector<std::byte> noise(answerer.wanted_bytes(), std::byte{'G'});
  answerer.receive(noise);
  EXPECT_TRUE(answerer.refused());
  EXPECT_TRUE(answerer.take_output().empty());
}

}  // namespace
}  // namespace dlaunch::comm
