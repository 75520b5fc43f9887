// The control socket: who gets in, garbage, slow readers, several clients, streams.
#include "launcher/controller/io/control_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <climits>
#include <deque>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "launcher/cli/io/control_client.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/sessions.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::launcher::controller {
namespace {

using cli::ControlClient;
using nlohmann::json;
using testing::HasSubstr;

class SessionsTest : public testing::Test {
 protected:
  void SetUp() override {
    identity_.host_names = {{HostId{0}, "gpu01"}, {HostId{1}, "gpu02"}};
    directory_ = temporary_.text() + "/" + std::string(150, 'd');  // longer than a socket's address
    ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
    sessions_.emplace(
        context_, identity_, events_, output_,
        Sessions::Hands{
            [this] {
              if (throws_) throw std::runtime_error("a bug");
              return json{{"schema", 1}, {"state", "running"}, {"reason", ""}, {"filler", filler_}};
            },
            [] {
              return json{{"type", "state"}, {"state", "running"}, {"reason", ""}};
            },
            [this](Event event) { put_.push_back(std::move(event)); },
            [](HostId host) { return host == HostId{0} ? "the minimum" : ""; },
            [this](std::uint64_t after, std::size_t rows_max, Sessions::OlderEvents done) {
              older_asked_.push_back({after, rows_max, std::move(done)});
            }});
    const auto listening = sessions_->listen(directory_);
    ASSERT_TRUE(listening) << listening.error().text();
  }
  void TearDown() override {
    sessions_.reset();
    context_.restart();
    context_.run_for(10s);
    EXPECT_TRUE(context_.stopped()) << "nothing waits any more once the server is gone";
  }
  ControlClient connect() {
    auto client = ControlClient::connect(directory_);
    EXPECT_TRUE(client) << client.error().text();
    return std::move(*client);
  }
  /// The next line; the server runs meanwhile. Null: the server closed.
  json next(ControlClient& client) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (std::chrono::steady_clock::now() < end) {
      context_.run_for(1ms);
      const auto open = client.read_some();
      auto line = client.take();
      if (line && *line) return **line;
      if (!open || !*open) return nullptr;
    }
    ADD_FAILURE() << "no line came";
    return nullptr;
  }
  json ask(ControlClient& client, const json& request) {
    EXPECT_TRUE(client.send(request));
    return next(client);
  }
  template <class Condition>
  bool run_until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!condition() && std::chrono::steady_clock::now() < end) context_.run_for(1ms);
    return condition();
  }
  void add_events(int count) {
    for (int i = 0; i < count; ++i) {
      EventRow row;
      row.event = "host_ready";
      row.host = "gpu01";
      events_.add(std::move(row));
    }
    sessions_->on_event();
  }

  TemporaryDirectory temporary_;
  std::string directory_;
  boost::asio::io_context context_;
  JobIdentity identity_;
  struct OlderAsked {
    std::uint64_t after;
    std::size_t rows_max;
    Sessions::OlderEvents done;
  };
  EventLog events_{0};
  OutputTail output_{{{HostId{0}, "gpu01"}, {HostId{1}, "gpu02"}}};
  std::vector<OlderAsked> older_asked_;
  std::string filler_;
  bool throws_ = false;
  std::vector<Event> put_;
  std::optional<Sessions> sessions_;
};

TEST_F(SessionsTest, TheSocketIsItsOwnersOnly) {
  struct stat info {};
  ASSERT_EQ(::stat((directory_ + "/control.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(SessionsTest, SeveralClientsAskForTheStatusOnOneConnectionEach) {
  auto one = connect();
  auto other = connect();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(one, {{"request", "status"}}).at("state"), "running");
    EXPECT_EQ(ask(other, {{"request", "status"}}).at("schema"), 1);
  }
}

TEST_F(SessionsTest, GarbageIsAnsweredInWordsAndChangesNothing) {
  auto client = connect();
  EXPECT_THAT(ask(client, json::array({1, 2})).at("error"), HasSubstr("JSON object"));
  EXPECT_THAT(ask(client, {{"request", "reboot"}}).at("error"), HasSubstr("unknown request"));
  EXPECT_THAT(ask(client, {{"request", 7}}).at("error"), HasSubstr("unknown request"));
  EXPECT_THAT(ask(client, {{"request", "drain"}, {"host", "gpu99"}}).at("error"),
              HasSubstr("gpu99"));
  EXPECT_THAT(ask(client, {{"request", "drain"}, {"host", "gpu01"}}).at("error"),
              HasSubstr("minimum"));
  EXPECT_TRUE(put_.empty());
  EXPECT_EQ(ask(client, {{"request", "status"}}).at("state"), "running") << "and still served";
}

TEST_F(SessionsTest, ARequestWithoutEndIsRefused) {
  auto client = connect();
  EXPECT_THAT(ask(client, json(std::string(200'000, 'x'))).at("error"), HasSubstr("64 KiB"));
  EXPECT_EQ(next(client), nullptr);
}

TEST_F(SessionsTest, StopCheckpointDrainAndAddReachTheMachine) {
  auto client = connect();
  EXPECT_EQ(ask(client, {{"request", "stop"}, {"now", true}, {"reason", "Ctrl-C"}}).at("ok"), true);
  EXPECT_EQ(ask(client, {{"request", "checkpoint"}}).at("ok"), true);
  EXPECT_EQ(ask(client, {{"request", "drain"}, {"host", "gpu02"}}).at("ok"), true);
  EXPECT_EQ(ask(client, {{"request", "add"}, {"host", "gpu01"}}).at("ok"), true);
  ASSERT_EQ(put_.size(), 4U);
  const auto& stop = std::get<supervisor::job::StopAsked>(std::get<ForJob>(put_[0]).event);
  EXPECT_TRUE(stop.now);
  EXPECT_FALSE(stop.preempted);
  EXPECT_EQ(stop.reason, "Ctrl-C");
  EXPECT_EQ(std::get<DrainAsked>(put_[2]).host, HostId{1});
  EXPECT_EQ(std::get<AddAsked>(put_[3]).host, HostId{0});
}

TEST_F(SessionsTest, EventsComeInOrderAndFollowersGetTheNewOnes) {
  add_events(1200);  // more than one turn's
  auto client = connect();
  auto follower = connect();
  ASSERT_TRUE(follower.send({{"request", "events"}, {"after", 1190}, {"follow", true}}));
  ASSERT_TRUE(client.send({{"request", "events"}}));
  for (int id = 1; id <= 1200; ++id) ASSERT_EQ(next(client).at("id"), id);
  EXPECT_EQ(next(client).at("type"), "done");
  EXPECT_EQ(next(client), nullptr) << "closed after the newest";
  for (int id = 1191; id <= 1200; ++id) ASSERT_EQ(next(follower).at("id"), id);
  add_events(2);
  EXPECT_EQ(next(follower).at("id"), 1201);
  EXPECT_EQ(next(follower).at("id"), 1202);
  sessions_->end(0, "finished");
  EXPECT_EQ(next(follower).at("type"), "done");
  EXPECT_EQ(next(follower), nullptr);
}

TEST_F(SessionsTest, OlderEventsComeFromTheDiskWithoutWaitingForIt) {
  add_events(static_cast<int>(EventLog::kKeptMax) + 3);
  auto client = connect();
  ASSERT_TRUE(client.send({{"request", "events"}}));
  ASSERT_TRUE(run_until([&] { return !older_asked_.empty(); }));
  EXPECT_EQ(older_asked_[0].after, 0U);
  EXPECT_EQ(older_asked_[0].rows_max, 3U);
  auto other = connect();
  EXPECT_EQ(ask(other, {{"request", "status"}}).at("schema"), 1) << "others are served meanwhile";
  std::vector<EventRow> old(3);
  for (std::uint64_t i = 0; i < 3; ++i) old[i].id = i + 1;
  older_asked_[0].done(old);
  for (std::uint64_t id = 1; id <= EventLog::kKeptMax + 3; ++id) {
    ASSERT_EQ(next(client).at("id"), id);
  }
  EXPECT_EQ(next(client).at("type"), "done");
}

TEST_F(SessionsTest, EventsThatTheDiskDoesNotHaveArePassedOver) {
  add_events(static_cast<int>(EventLog::kKeptMax) + 1);
  auto client = connect();
  ASSERT_TRUE(client.send({{"request", "events"}}));
  ASSERT_TRUE(run_until([&] { return !older_asked_.empty(); }));
  older_asked_[0].done({});
  EXPECT_EQ(next(client).at("id"), 2);
}

TEST_F(SessionsTest, LogsWithoutAGenerationAreOfTheNewestAndWhatFollows) {
  const auto line = [&](std::uint64_t generation, const std::string& text) {
    protocol::LogLines lines;
    lines.set_text(text);
    sessions_->on_output(output_.add(HostId{0}, Generation{generation}, lines));
  };
  line(1, "old\n");
  line(2, "new\n");
  auto newest = connect();
  EXPECT_EQ(ask(newest, {{"request", "logs"}, {"follow", true}}).at("text"), "new\n");
  line(3, "newer\n");
  EXPECT_EQ(next(newest).at("text"), "newer\n");
  auto older = connect();
  EXPECT_EQ(ask(older, {{"request", "logs"}, {"generation", 1}}).at("text"), "old\n");
  EXPECT_EQ(next(older).at("type"), "done");
}

TEST_F(SessionsTest, LogsOfManyRanksReachAReaderThatTakesItsTime) {
  constexpr std::uint32_t kRanks = 300;  // more than the queue of a client holds
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    protocol::LogLines lines;
    lines.set_rank(rank);
    lines.set_text(std::string(OutputTail::kBytesPerRankMax - 1, 'x') + "\n");
    output_.add(HostId{0}, Generation{1}, lines);
  }
  auto client = connect();
  ASSERT_TRUE(client.send({{"request", "logs"}}));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) ASSERT_EQ(next(client).at("rank"), rank);
  EXPECT_EQ(next(client).at("type"), "done");
}

TEST_F(SessionsTest, AFollowerThatIsBehindGetsTheRestAfterTheEnd) {
  add_events(1200);
  auto follower = connect();
  ASSERT_TRUE(follower.send({{"request", "events"}, {"follow", true}}));
  ASSERT_EQ(next(follower).at("id"), 1);
  sessions_->end(0, "finished");
  for (int id = 2; id <= 1200; ++id) ASSERT_EQ(next(follower).at("id"), id);
  EXPECT_EQ(next(follower).at("type"), "done");
}

TEST_F(SessionsTest, TheStateAloneIsCheap) {
  auto client = connect();
  const auto answer = ask(client, {{"request", "state"}});
  EXPECT_EQ(answer.at("state"), "running");
  EXPECT_FALSE(answer.contains("filler"));
}

TEST_F(SessionsTest, AnExceptionOfTheMachineEndsTheProcessInsteadOfTheConnection) {
  auto client = connect();
  throws_ = true;
  ASSERT_TRUE(client.send({{"request", "status"}}));
  EXPECT_THROW(context_.run_for(10s), std::runtime_error);
  throws_ = false;
}

TEST(ControlClient, AYearOfWaitingIsNoOverflow) {
  EXPECT_EQ(cli::poll_milliseconds(std::chrono::hours(24 * 365)), INT_MAX);
  EXPECT_EQ(cli::poll_milliseconds(1500ms), 1500);
  EXPECT_EQ(cli::poll_milliseconds(-1ms), 0);
}

TEST_F(SessionsTest, LogsAreKeptPerRankAndFilteredAndFollowed) {
  const auto line = [&](std::uint32_t host, std::uint32_t rank, const std::string& text) {
    protocol::LogLines lines;
    lines.set_rank(rank);
    lines.set_text(text);
    sessions_->on_output(output_.add(HostId{host}, Generation{2}, lines));
  };
  line(0, 0, "zero\n");
  line(1, 1, "one\n");
  auto all = connect();
  EXPECT_EQ(ask(all, {{"request", "logs"}, {"rank", nullptr}}).at("text"), "zero\n");
  EXPECT_EQ(next(all).at("host"), "gpu02");
  EXPECT_EQ(next(all).at("type"), "done");
  EXPECT_EQ(next(all), nullptr);
  auto one = connect();
  EXPECT_EQ(ask(one, {{"request", "logs"}, {"rank", 1}, {"follow", true}}).at("text"), "one\n");
  auto of_host = connect();
  EXPECT_EQ(ask(of_host, {{"request", "logs"}, {"host", "gpu02"}}).at("text"), "one\n");
  line(0, 0, "zero again\n");
  line(1, 1, "one again\n");
  EXPECT_EQ(next(one).at("text"), "one again\n");
}

TEST_F(SessionsTest, WatchersSeeStateOutputOfRankZeroAndTheEnd) {
  auto client = connect();
  EXPECT_EQ(ask(client, {{"request", "watch"}}).at("type"), "state");
  sessions_->tell({{"type", "say"}, {"sentence", "waiting for gpu02"}});
  EXPECT_EQ(next(client).at("sentence"), "waiting for gpu02");
  sessions_->end(75, "stopped on request");
  const auto end = next(client);
  EXPECT_EQ(end.at("type"), "ended");
  EXPECT_EQ(end.at("code"), 75);
  EXPECT_EQ(next(client), nullptr);
  EXPECT_TRUE(run_until([&] { return sessions_->idle(); }));
}

TEST_F(SessionsTest, WhatWasSaidBeforeAnybodyWatchedReachesTheFirstWhoDoes) {
  sessions_->greet("on a network file system");
  auto first = connect();
  EXPECT_EQ(ask(first, {{"request", "watch"}}).at("type"), "state");
  EXPECT_EQ(next(first).at("sentence"), "on a network file system");
  auto second = connect();
  EXPECT_EQ(ask(second, {{"request", "watch"}}).at("type"), "state");
  sessions_->end(0, "finished");
  EXPECT_EQ(next(second).at("type"), "ended");
}

TEST_F(SessionsTest, AnAttachedWatcherThatGoesStopsTheJobAsPreempted) {
  {
    auto plain = connect();
    EXPECT_EQ(ask(plain, {{"request", "watch"}}).at("type"), "state");
  }
  {
    auto attached = connect();
    EXPECT_EQ(ask(attached, {{"request", "watch"}, {"attached", true}}).at("type"), "state");
  }
  ASSERT_TRUE(run_until([&] { return !put_.empty(); }));
  EXPECT_TRUE(std::get<supervisor::job::StopAsked>(std::get<ForJob>(put_[0]).event).preempted);
}

TEST_F(SessionsTest, ASlowReaderIsDroppedAndTheOthersAreServed) {
  auto slow = connect();
  EXPECT_EQ(ask(slow, {{"request", "watch"}}).at("type"), "state");
  auto quick = connect();
  filler_ = std::string(1 << 20, 'x');
  for (int i = 0; i < 16; ++i) {
    sessions_->tell({{"type", "say"}, {"sentence", filler_}});
    context_.poll();
  }
  EXPECT_EQ(ask(quick, {{"request", "status"}}).at("filler"), filler_);
  json last;
  for (auto line = next(slow); !line.is_null(); line = next(slow)) last = line;
  EXPECT_EQ(last.at("type"), "dropped");
  EXPECT_THAT(last.at("error"), HasSubstr("too slowly"));
}

TEST_F(SessionsTest, MoreClientsThanTheBoundAreTurnedAway) {
  std::deque<ControlClient> clients;
  for (std::size_t i = 0; i < ControlServer::kClientsMax; ++i) {
    clients.push_back(connect());
    ASSERT_EQ(ask(clients.back(), {{"request", "status"}}).at("state"), "running");
  }
  auto one_more = connect();
  (void)one_more.send({{"request", "status"}});
  EXPECT_EQ(next(one_more), nullptr);
  clients.pop_front();
  ASSERT_TRUE(run_until([&] {
    auto again = connect();
    (void)again.send({{"request", "status"}});
    return !next(again).is_null();
  }));
}

}  // namespace
}  // namespace dlaunch::launcher::controller
