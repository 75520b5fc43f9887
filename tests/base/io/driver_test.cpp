// The driver: order, no re-entrance, deadlines, posts from other threads, the end.
#include "base/io/driver.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <variant>
#include <vector>

namespace dlaunch {
namespace {

struct Word {
  std::string text;
};
struct Due {};
struct Gap {};
using WordEvent = std::variant<Word, Due, Gap>;

/// Echoes words; asks for a deadline at the word "wait".
class Echo {
 public:
  std::vector<std::string> step(Instant now, const WordEvent& event) {
    EXPECT_FALSE(inside_) << "never re-entered";
    inside_ = true;
    std::vector<std::string> out;
    if (const auto* word = std::get_if<Word>(&event)) {
      out = {word->text};
      if (word->text == "wait") deadline_ = now + 20ms;
    } else if (std::holds_alternative<Due>(event)) {
      EXPECT_GE(now, *deadline_);
      deadline_.reset();
      out = {"due"};
    } else {
      out = {"gap"};
    }
    inside_ = false;
    return out;
  }
  [[nodiscard]] std::optional<Instant> next_deadline() const { return deadline_; }

 private:
  std::optional<Instant> deadline_;
  bool inside_ = false;
};

class DriverTest : public testing::Test {
 protected:
  using EchoDriver = Driver<Echo, WordEvent>;
  DriverTest()
      : driver_(context_, machine_, Due{},
                {[this](std::string&& word) {
                   said_.push_back(word);
                   if (word == "again") driver_.put(Word{"from perform"});
                   if (word == "stop") driver_.stop();
                 },
                 {},
                 [](nanoseconds) -> WordEvent { return Gap{}; }}) {}

  boost::asio::io_context context_;
  Echo machine_;
  std::vector<std::string> said_;
  EchoDriver driver_;
};

TEST_F(DriverTest, WhatACommandPutsInWaitsForItsTurn) {
  driver_.put(Word{"again"});
  EXPECT_EQ(said_, (std::vector<std::string>{"again", "from perform"}));
  driver_.stop();
}

TEST_F(DriverTest, ADeadlineIsReportedOnceItIsOver) {
  driver_.put(Word{"wait"});
  const auto end = monotonic_now() + 30s;
  while (said_.size() < 2 && monotonic_now() < end) context_.run_one_for(100ms);
  EXPECT_EQ(said_, (std::vector<std::string>{"wait", "due"}));
  driver_.stop();
}

TEST_F(DriverTest, OtherThreadsPost) {
  driver_.put(Word{"first"});
  std::thread other([this] {
    for (int i = 0; i < 100; ++i) driver_.post(Word{"x"});
    driver_.post(Word{"stop"});
  });
  context_.run();  // returns once the driver has stopped
  other.join();
  EXPECT_EQ(said_.size(), 102U);
}

TEST_F(DriverTest, NothingIsTakenAfterTheEnd) {
  driver_.put(Word{"stop"});
  driver_.put(Word{"late"});
  driver_.post(Word{"later"});
  context_.run();
  EXPECT_EQ(said_, std::vector<std::string>{"stop"});
}

TEST_F(DriverTest, AGapInItsOwnLifeIsToldFirst) {
  driver_.put(Word{"before"});
  const auto end = monotonic_now() + 2 * EchoDriver::kStallGap;
  while (monotonic_now() < end) {
  }
  driver_.put(Word{"after"});
  EXPECT_EQ(said_, (std::vector<std::string>{"before", "gap", "after"}));
  driver_.stop();
}

}  // namespace
}  // namespace dlaunch
