// Who gets a place, who waits, who is turned out.
#include "rendezvous/admission.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace dlaunch::rendezvous {
namespace {

using Connections = std::vector<Admission::Connection>;
Instant at(milliseconds since) { return Instant{} + 1h + since; }

class AdmissionTest : public testing::Test {
 protected:
  void arrive(const std::string& source, int count = 1) {
    for (; count > 0; --count) take(admission_.arrived(at(now_), source, ++newest_));
  }
  void take(const Admission::Ruling& ruling) {
    for (const auto out : ruling.turned_out) turned_out_.push_back(out);
    for (const auto in : ruling.admitted) admitted_.push_back(in);
  }
  void forget() {
    turned_out_.clear();
    admitted_.clear();
  }
  Admission admission_{{4, 6, 2s, 200ms}};
  milliseconds now_{0};
  Admission::Connection newest_ = 0;
  Connections turned_out_, admitted_;
};

TEST_F(AdmissionTest, WhileThereArePlacesNobodyWaits) {
  arrive("a", 4);
  EXPECT_EQ(admitted_, (Connections{1, 2, 3, 4}));
  EXPECT_EQ(admission_.next_deadline(), std::nullopt);
  arrive("a", 3);
  EXPECT_EQ(admitted_.size(), 4U) << "a start of many agents behind one address is not disturbed";
  EXPECT_EQ(admission_.waiting(), 3U);
  EXPECT_TRUE(turned_out_.empty());
}

TEST_F(AdmissionTest, APlaceThatBecomesFreeIsForTheNewest) {
  arrive("a", 7);
  forget();
  take(admission_.left(at(1ms), 2));
  EXPECT_EQ(admitted_, Connections{7});
  EXPECT_TRUE(admission_.left(at(1ms), 2).admitted.empty()) << "it has left before";
}

TEST_F(AdmissionTest, AnotherSourceTakesThePlaceOfTheOldestOfTheOneWithMost) {
  arrive("a", 7);
  forget();
  arrive("b");
  EXPECT_EQ(turned_out_, Connections{1});
  EXPECT_EQ(admitted_, Connections{8});
  arrive("c");
  EXPECT_EQ(turned_out_, (Connections{1, 2}));
  EXPECT_EQ(admitted_, (Connections{8, 9}));
  forget();
  arrive("b");
  arrive("a");
  EXPECT_TRUE(turned_out_.empty()) << "all have their share";
}

TEST_F(AdmissionTest, OneThatHasNotSaidAWordIsGivenUpSoon) {
  arrive("a", 5);
  admission_.spoke(1);
  admission_.spoke(5);  // it waits, nobody has listened
  EXPECT_EQ(admission_.next_deadline(), at(200ms));
  take(admission_.due(at(199ms)));
  EXPECT_TRUE(turned_out_.empty());
  take(admission_.due(at(200ms)));
  EXPECT_EQ(turned_out_, Connections{2});
  EXPECT_EQ(admitted_.back(), 5U);
}

TEST_F(AdmissionTest, WithoutPlacesOneIsGivenUpAfterAWhile) {
  arrive("a", 5);
  for (Admission::Connection each = 1; each <= 5; ++each) admission_.spoke(each);
  EXPECT_EQ(admission_.next_deadline(), at(2s));
  take(admission_.due(at(1999ms)));
  EXPECT_TRUE(turned_out_.empty());
  take(admission_.due(at(2s)));
  EXPECT_EQ(turned_out_, Connections{1});
  EXPECT_EQ(admitted_.back(), 5U);
  EXPECT_EQ(admission_.next_deadline(), std::nullopt) << "nobody waits";
}

TEST_F(AdmissionTest, OfTooManyThatWaitTheOldestOfTheSourceWithMostIsTurnedOut) {
  arrive("a", 4 + 5);
  arrive("b");  // takes the place of 1
  arrive("b");  // and of 2
  arrive("b");
  EXPECT_EQ(turned_out_, (Connections{1, 2}));
  EXPECT_EQ(admission_.waiting(), 6U);
  arrive("b");
  EXPECT_EQ(turned_out_.back(), 5U) << "five of a wait, two of b";
  EXPECT_EQ(admission_.waiting(), 6U);
  EXPECT_EQ(admission_.placed(), 4U);
}

TEST_F(AdmissionTest, TheOldestPlaceIsNotThatOfTheOldestConnection) {
  arrive("a", 6);
  now_ = 100ms;
  take(admission_.left(at(now_), 1));  // 6 gets the place
  take(admission_.left(at(now_), 6));  // and 5 after it, which is older
  forget();
  now_ = 150ms;
  arrive("b");
  EXPECT_EQ(turned_out_, Connections{2});
  EXPECT_EQ(admitted_, Connections{7});
}

TEST_F(AdmissionTest, WhoIsTurnedOutIsNotAdmittedByTheSameRuling) {
  Admission::Connection newest = 0;
  std::set<Admission::Connection> in, out;
  for (int round = 0; round < 3000; ++round) {
    const auto now = at(milliseconds(round / 7));
    const auto source = std::string(1, static_cast<char>('a' + (round * round) % 5));
    const auto ruling = round % 3 == 2 ? admission_.left(now, newest - round % 11)
                                       : admission_.arrived(now, source, ++newest);
    for (const auto each : ruling.turned_out) out.insert(each);
    for (const auto each : ruling.admitted) {
      EXPECT_TRUE(in.insert(each).second) << each << " is admitted twice";
      EXPECT_FALSE(out.contains(each)) << each << " was turned out";
    }
    EXPECT_LE(admission_.placed(), 4U);
    EXPECT_LE(admission_.waiting(), 6U);
  }
}

TEST_F(AdmissionTest, AFloodLeavesNothingBehind) {
  arrive("a", 1000);
  arrive("b", 1000);
  for (Admission::Connection each = 1; each <= newest_; ++each) {
    (void)admission_.left(at(1ms), each);
  }
  EXPECT_EQ(admission_.placed() + admission_.waiting(), 0U);
  EXPECT_EQ(admission_.next_deadline(), std::nullopt);
  forget();
  arrive("c", 4);
  EXPECT_EQ(admitted_.size(), 4U);
}

TEST(SourceOf, IsAnAddressOrTheNetworkOfALongOne) {
  EXPECT_EQ(source_of("10.0.0.1"), "10.0.0.1");
  EXPECT_NE(source_of("10.0.0.1"), source_of("10.0.0.2"));
  EXPECT_EQ(source_of("fd00::1"), source_of("fd00::2:1"));
  EXPECT_NE(source_of("fd00::1"), source_of("fd00:0:0:1::1"));
  EXPECT_EQ(source_of("fe80::1%eth0"), source_of("fe80::2"));
}

}  // namespace
}  // namespace dlaunch::rendezvous
