// A wire between an agent and the listener that decides which bytes come together.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <utility>

#include "tests/rendezvous/io/dialer.h"

namespace dlaunch::rendezvous {

/// Takes one connection and passes it on. Kept by its own coroutines.
class Trickle : public std::enable_shared_from_this<Trickle> {
 public:
  /// The agent's bytes go on in pieces of so many, each in a turn of its own.
  Trickle(boost::asio::io_context& context, std::uint16_t to, std::size_t piece)
      : context_(context),
        to_(to),
        piece_(piece),
        acceptor_(context, loopback(0)),
        agent_(context),
        server_(context) {}

  std::uint16_t start() {
    boost::asio::co_spawn(
        context_, [self = shared_from_this()] { return self->run(); }, boost::asio::detached);
    return acceptor_.local_endpoint().port();
  }
  /// From now on the agent's bytes wait; `release` lets all of them go at once.
  void hold() { holding_ = true; }
  /// The same once the listener has said something.
  void hold_from_the_answer_on() { hold_then_ = true; }
  [[nodiscard]] std::size_t held() const { return held_.size(); }
  void release() {
    holding_ = false;
    boost::asio::write(server_, boost::asio::buffer(held_));
    held_.clear();
  }
  /// The agent is gone without a word; what it said has been passed on.
  void end() {
    boost::system::error_code ignored;
    agent_.close(ignored);
    server_.close(ignored);
  }

 private:
  static constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

  boost::asio::awaitable<void> run() {
    auto accepting = acceptor_.async_accept(agent_, kAwait);
    const auto accepted = co_await std::move(accepting);
    if (std::get<0>(accepted)) co_return;
    server_.connect(loopback(to_));
    server_.set_option(boost::asio::ip::tcp::no_delay(true));
    boost::asio::co_spawn(
        context_, [self = shared_from_this()] { return self->back(); }, boost::asio::detached);
    std::array<char, 4096> buffer{};
    while (true) {
      auto reading = agent_.async_read_some(boost::asio::buffer(buffer), kAwait);
      const auto [code, count] = co_await std::move(reading);
      if (code) break;
      const std::string bytes(buffer.data(), count);
      if (holding_) {
        held_ += bytes;
        continue;
      }
      for (std::size_t at = 0; at < bytes.size(); at += piece_) {
        const auto part = bytes.substr(at, piece_);
        boost::system::error_code failed;
        boost::asio::write(server_, boost::asio::buffer(part), failed);
        if (failed) co_return;
        auto turn = boost::asio::post(context_, boost::asio::use_awaitable);
        co_await std::move(turn);
      }
    }
    end();
  }
  boost::asio::awaitable<void> back() {
    std::array<char, 4096> buffer{};
    while (true) {
      auto reading = server_.async_read_some(boost::asio::buffer(buffer), kAwait);
      const auto [code, count] = co_await std::move(reading);
      boost::system::error_code failed = code;
      if (std::exchange(hold_then_, false)) hold();
      if (!failed) {
        boost::asio::write(agent_, boost::asio::buffer(buffer.data(), count), failed);
      }
      if (failed) break;
    }
    end();
  }

  boost::asio::io_context& context_;
  std::uint16_t to_;
  std::size_t piece_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::ip::tcp::socket agent_, server_;
  bool holding_ = false, hold_then_ = false;
  std::string held_;
};

}  // namespace dlaunch::rendezvous
