// Relayed connections: who may ask, and what passes through.
#include "supervisor/host/io/relay.h"

#include <gtest/gtest.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <list>
#include <memory>
#include <string>

#include "base/io/clock.h"
#include "protocol/framing.h"
#include "supervisor/host/io/peer_proof.h"

namespace dlaunch::supervisor::host {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

const std::string kKey(32, 'k');

/// A relay whose controller is a listener of the test.
class RelayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Relay::Setting setting;
    setting.job = "job-1";
    setting.host = HostId{2};
    setting.request_limit = 300ms;
    setting.idle_limit = 400ms;
    setting.way = [this]() -> std::optional<protocol::ControllerAddress> {
      if (!hears_) return std::nullopt;
      return protocol::ControllerAddress{"127.0.0.1", controller_.local_endpoint().port()};
    };
    relay_ = std::make_shared<Relay>(context_, std::move(setting));
    relay_->set_key(kKey);
    port_ = relay_->open("127.0.0.1", {});
    ASSERT_NE(port_, 0U);
    controller_.non_blocking(true);
  }
  void TearDown() override {
    relay_->close();
    context_.restart();
    context_.run_for(std::chrono::milliseconds(50));
  }
  template <class Condition>
  [[nodiscard]] bool until(Condition holds, nanoseconds limit = 20s) {
    const auto due = monotonic_now() + limit;
    while (!holds()) {
      if (monotonic_now() > due) return false;
      context_.restart();
      context_.run_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  tcp::socket& connect() {
    auto& socket = sockets_.emplace_back(context_);
    socket.connect({asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port_)});
    socket.non_blocking(true);
    return socket;
  }
  /// All that has come, until `bytes` are there or the other side closes.
  [[nodiscard]] std::string read(tcp::socket& socket, std::size_t bytes) {
    std::string text;
    (void)until([&] {
      std::array<char, 4096> buffer{};
      boost::system::error_code code;
      const auto count = socket.read_some(asio::buffer(buffer), code);
      text.append(buffer.data(), count);
      return text.size() >= bytes || (code && code != asio::error::would_block);
    });
    return text;
  }
  [[nodiscard]] bool is_closed(tcp::socket& socket) {
    return until([&] {
      std::array<char, 64> buffer{};
      boost::system::error_code code;
      socket.read_some(asio::buffer(buffer), code);
      return code && code != asio::error::would_block;
    });
  }
  static void write(tcp::socket& socket, const std::string& text) {
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(text), ignored);
  }
  [[nodiscard]] static std::string request(const std::string& nonce, const std::string& key = kKey,
                                           const std::string& job = "job-1", std::uint32_t to = 2) {
    protocol::RelayRequest asked;
    asked.set_job(job);
    asked.set_from(1);
    asked.set_to(to);
    asked.set_nonce(nonce);
    sign(key, asked);
    return protocol::frame(asked.SerializeAsString());
  }
  /// The controller's end of a relayed connection.
  [[nodiscard]] bool accepted(tcp::socket& socket) {
    return until([&] {
      boost::system::error_code code;
      controller_.accept(socket, code);
      if (!code) socket.non_blocking(true);
      return !code;
    });
  }
  /// A whole relayed connection.
  void relay(tcp::socket& agent, tcp::socket& controller) {
    write(agent, request(read(agent, kNonceBytes)));
    ASSERT_TRUE(until([&] {
      relay_->heard();
      return relay_->relayed() == 1;
    }));
    ASSERT_TRUE(accepted(controller));
  }

  asio::io_context context_;
  tcp::acceptor controller_{context_, {asio::ip::address_v4::loopback(), 0}};
  std::shared_ptr<Relay> relay_;
  std::uint32_t port_ = 0;
  bool hears_ = true;
  std::list<tcp::socket> sockets_;
};

TEST_F(RelayTest, BytesGoBothWaysUnchangedAndEitherEndClosesBoth) {
  auto& agent = connect();
  tcp::socket controller(context_);
  relay(agent, controller);
  std::string large;
  for (int i = 0; i < 100'000; ++i) large.push_back(static_cast<char>(i % 251));
  write(agent, large.substr(0, 60'000));
  EXPECT_EQ(read(controller, 60'000), large.substr(0, 60'000));
  write(controller, large.substr(0, 50'000));
  EXPECT_EQ(read(agent, 50'000), large.substr(0, 50'000));
  controller.close();
  EXPECT_TRUE(is_closed(agent));
  EXPECT_TRUE(until([&] { return relay_->relayed() == 0; }));
}

TEST_F(RelayTest, WhoCannotProveTheKeyGetsNoByteFurther) {
  const std::vector<std::string> wrong = {
      request(std::string(16, 'n')),           // another connection's nonce
      std::string("\0\0\0\0", 4),              // no request
      std::string("\xff\xff\xff\xff", 4),      // four gigabytes
      protocol::frame(std::string(200, 'x')),  // not a message
      "GET / HTTP/1.0\r\n\r\n",
  };
  for (const auto& text : wrong) {
    auto& stranger = connect();
    ASSERT_EQ(read(stranger, kNonceBytes).size(), kNonceBytes);
    write(stranger, text);
    EXPECT_TRUE(is_closed(stranger));
  }
  const auto refused = [&](auto make) {
    auto& stranger = connect();
    write(stranger, make(read(stranger, kNonceBytes)));
    return is_closed(stranger);
  };
  EXPECT_TRUE(refused([](auto nonce) { return request(nonce, std::string(32, 'x')); }));
  EXPECT_TRUE(refused([](auto nonce) { return request(nonce, kKey, "job-2"); }));
  EXPECT_TRUE(refused([](auto nonce) { return request(nonce, kKey, "job-1", 3); }));
  EXPECT_EQ(relay_->relayed(), 0U);
  EXPECT_EQ(relay_->refused(), wrong.size() + 3);
}

TEST_F(RelayTest, ARecordedRequestIsWorthNothingOnAnotherConnection) {
  auto& agent = connect();
  const auto recorded = request(read(agent, kNonceBytes));
  auto& replayer = connect();
  ASSERT_EQ(read(replayer, kNonceBytes).size(), kNonceBytes);
  write(replayer, recorded);
  EXPECT_TRUE(is_closed(replayer));
}

TEST_F(RelayTest, ASilentStrangerLosesItsPlaceAndTheirNumberIsBounded) {
  for (std::size_t i = 0; i < Relay::kAskingMax; ++i) (void)connect();
  auto& one_more = connect();
  EXPECT_TRUE(is_closed(one_more));
  EXPECT_TRUE(until([&] { return relay_->refused() == Relay::kAskingMax + 1; }));
  auto& agent = connect();
  tcp::socket controller(context_);
  relay(agent, controller);
}

TEST_F(RelayTest, AnAgentThatDoesNotHearTheControllerItselfDoesNotRelay) {
  auto& agent = connect();
  write(agent, request(read(agent, kNonceBytes)));
  EXPECT_TRUE(is_closed(agent)) << "no frame of the controller came";
  hears_ = false;
  auto& another = connect();
  write(another, request(read(another, kNonceBytes)));
  EXPECT_TRUE(is_closed(another));
  tcp::socket controller(context_);
  boost::system::error_code code;
  controller_.accept(controller, code);
  EXPECT_EQ(code, asio::error::would_block) << "and the controller was not bothered";
}

TEST_F(RelayTest, ARelayedConnectionWithoutTrafficEnds) {
  auto& agent = connect();
  tcp::socket controller(context_);
  relay(agent, controller);
  EXPECT_TRUE(is_closed(agent));
  EXPECT_TRUE(is_closed(controller));
}

}  // namespace
}  // namespace dlaunch::supervisor::host
