// What becomes of the agent's orders, in whatever order they come.
#include "trainer/mailbox.h"

#include <gtest/gtest.h>

namespace dlaunch::trainer {
namespace {

namespace worker = protocol::worker;

constexpr Generation kFirst{1}, kSecond{2};

worker::Assign assign_rank(std::uint32_t rank) {
  worker::Assign assign;
  assign.rank = Rank{rank};
  return assign;
}

TEST(Mailbox, AnAssignmentIsTakenOnceAndBringsItsGeneration) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kSecond, assign_rank(3)});
  EXPECT_EQ(mailbox.generation(), kSecond);
  EXPECT_EQ(std::get<Assigned>(mailbox.wait_parked(0ms)).assign.rank, Rank{3});
  EXPECT_TRUE(std::holds_alternative<TimedOut>(mailbox.wait_parked(0ms)));
}

worker::Endpoints endpoints_from(std::uint32_t first, std::uint32_t count) {
  worker::Endpoints part;
  for (std::uint32_t i = 0; i < count; ++i) {
    part.endpoints.push_back({Rank{first + i}, "10.0.0.1", 1000});
  }
  return part;
}

TEST(Mailbox, EndpointsThatCameBeforeStandInFrontOfTheAssignments) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kFirst, endpoints_from(0, 2000)});
  mailbox.deliver({kFirst, endpoints_from(2000, 2000)});
  EXPECT_TRUE(std::holds_alternative<TimedOut>(mailbox.wait_parked(0ms)));
  auto assign = assign_rank(7);
  assign.endpoints = endpoints_from(4000, 96).endpoints;
  mailbox.deliver({kFirst, assign});
  const auto taken = std::get<Assigned>(mailbox.wait_parked(0ms)).assign;
  ASSERT_EQ(taken.endpoints.size(), 4096U);
  for (std::uint32_t rank = 0; rank < 4096; ++rank) {
    EXPECT_EQ(taken.endpoints[rank].rank, Rank{rank});
  }
  mailbox.deliver({kFirst, assign});
  EXPECT_EQ(std::get<Assigned>(mailbox.wait_parked(0ms)).assign.endpoints.size(), 96U);
}

TEST(Mailbox, EndpointsOfAnotherGenerationAreNotMixedIn) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kFirst, endpoints_from(0, 5)});
  mailbox.deliver({kSecond, endpoints_from(0, 3)});
  mailbox.deliver({kSecond, assign_rank(0)});
  EXPECT_EQ(std::get<Assigned>(mailbox.wait_parked(0ms)).assign.endpoints.size(), 3U);
}

TEST(Mailbox, MoreEndpointsThanTheLargestJobHasAreNotKept) {
  Mailbox mailbox(kFirst);
  for (int i = 0; i < 100; ++i) mailbox.deliver({kFirst, endpoints_from(0, 1000)});
  mailbox.deliver({kFirst, assign_rank(0)});
  EXPECT_LE(std::get<Assigned>(mailbox.wait_parked(0ms)).assign.endpoints.size(), 4096U);
}

TEST(Mailbox, OfTwoAssignmentsTheNewestCounts) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kFirst, assign_rank(0)});
  mailbox.deliver({kSecond, assign_rank(1)});
  EXPECT_EQ(std::get<Assigned>(mailbox.wait_parked(0ms)).generation, kSecond);
  EXPECT_TRUE(std::holds_alternative<TimedOut>(mailbox.wait_parked(0ms)));
}

TEST(Mailbox, WhatIsAboutAnOlderGenerationIsDropped) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kSecond, assign_rank(0)});
  mailbox.deliver({kFirst, assign_rank(1)});
  mailbox.deliver({kFirst, worker::Abort{"old"}});
  mailbox.deliver({kFirst, worker::Stop{true}});
  EXPECT_FALSE(mailbox.abort_flag()->is_set());
  EXPECT_FALSE(mailbox.requests().stop);
  EXPECT_EQ(std::get<Assigned>(mailbox.wait_parked(0ms)).assign.rank, Rank{0});
}

TEST(Mailbox, AnAbortEndsWaitsIsAnsweredOnceAndDropsTheAssignment) {
  Mailbox mailbox(kFirst);
  const auto flag = mailbox.abort_flag();
  mailbox.deliver({kFirst, assign_rank(0)});
  const auto assigned_flag = mailbox.abort_flag();
  mailbox.deliver({kFirst, worker::Go{}});
  mailbox.deliver({kFirst, worker::Abort{"a host is lost"}});
  EXPECT_TRUE(assigned_flag->is_set());
  EXPECT_EQ(assigned_flag->reason(), "a host is lost");
  EXPECT_TRUE(std::holds_alternative<AbortAsked>(mailbox.wait_go(0ms)));
  EXPECT_TRUE(std::holds_alternative<AbortAsked>(mailbox.wait_parked(0ms)));
  EXPECT_TRUE(std::holds_alternative<TimedOut>(mailbox.wait_parked(0ms)));
  EXPECT_TRUE(flag->is_set()) << "the assignment ended what was before it";
}

TEST(Mailbox, ALaterAssignmentEndsTheCurrentGenerationWithoutAnAbort) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kFirst, assign_rank(0)});
  EXPECT_TRUE(std::holds_alternative<Assigned>(mailbox.wait_parked(0ms)));
  const auto flag = mailbox.abort_flag();
  mailbox.deliver({kFirst, worker::Go{}});
  mailbox.deliver({kSecond, assign_rank(1)});
  EXPECT_TRUE(flag->is_set());
  EXPECT_FALSE(mailbox.abort_flag()->is_set());
  EXPECT_TRUE(std::holds_alternative<AbortAsked>(mailbox.wait_go(0ms)));
  EXPECT_EQ(std::get<Assigned>(mailbox.wait_parked(0ms)).assign.rank, Rank{1});
  EXPECT_TRUE(std::holds_alternative<TimedOut>(mailbox.wait_go(0ms))) << "the go was another's";
}

TEST(Mailbox, GoComesBeforeAStopThatFollowsIt) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kFirst, worker::Go{}});
  mailbox.deliver({kFirst, worker::Stop{true}});
  EXPECT_TRUE(std::holds_alternative<GoAhead>(mailbox.wait_go(0ms)));
  EXPECT_TRUE(mailbox.requests().stop_checkpoint);
}

TEST(Mailbox, ASecondStopMayGiveUpTheCheckpointOnly) {
  Mailbox mailbox(kFirst);
  mailbox.deliver({kFirst, worker::Stop{true}});
  mailbox.deliver({kFirst, worker::Stop{false}});
  EXPECT_FALSE(mailbox.requests().stop_checkpoint);
  mailbox.deliver({kFirst, worker::Stop{true}});
  EXPECT_TRUE(mailbox.requests().stop);
  EXPECT_FALSE(mailbox.requests().stop_checkpoint);
}

TEST(Mailbox, AWishForACheckpointThatAllMetEarlierIsNotMetAgain) {
  Mailbox mailbox(kFirst);
  mailbox.met_checkpoint();
  mailbox.deliver({kFirst, worker::CheckpointAt{}});
  EXPECT_FALSE(mailbox.requests().checkpoint);
  mailbox.deliver({kFirst, worker::CheckpointAt{}});
  EXPECT_TRUE(mailbox.requests().checkpoint);
  mailbox.met_checkpoint();
  EXPECT_FALSE(mailbox.requests().checkpoint);
}

}  // namespace
}  // namespace dlaunch::trainer
