// Looks for another way to the controller, as io/connection.cpp and io/relay.cpp of the agent do.
#include <algorithm>
#include <utility>

#include "simulation/host.h"

namespace dlaunch::simulation {

namespace agent = supervisor::host;

namespace {

constexpr nanoseconds kConfirm = 30ms;
constexpr nanoseconds kSearchPause = 500ms;
constexpr nanoseconds kDirectPauseMax = 30s;
constexpr nanoseconds kDirectSettled = 10s;
constexpr nanoseconds kTunnelFirst = 4s;
constexpr nanoseconds kTunnelLook = 1s;
constexpr nanoseconds kRefusedTime = 1ms;
constexpr nanoseconds kConnectLimit = 1500ms;
constexpr nanoseconds kRelayConnectLimit = 500ms;
constexpr nanoseconds kRelayLimit = 1500ms;  // that it says its nonce, hears the controller
constexpr nanoseconds kFrameLimit = 600ms;
constexpr nanoseconds kHandshakeTime = 4ms;
constexpr std::size_t kRelayedMax = 16;

}  // namespace

/// Of this life of the agent, and not while it is stopped.
void Host::when_alive(nanoseconds delay, std::function<void()> action) {
  queue_.after(delay, [this, life = agents_, action = std::move(action)] {
    if (agent_ && life == agents_ && !frozen_since_) action();
  });
}

// ---- is the controller heard

std::optional<Instant> Host::cut_at() const {
  if (credited_ || muted_ || ways_.lost_after == 0ns) return std::nullopt;
  if (connection_) return ways_.path.silent_at();
  if (!ways_.down_since) return std::nullopt;
  return *ways_.down_since + ways_.lost_after / 2;
}

bool Host::is_cut() const {
  const auto due = cut_at();
  return due && own_now() >= *due;
}

/// Rings at the moment at which something would have to be done, unless something is heard.
void Host::watch() {
  if (!agent_ || frozen_since_ || ways_.looks) return;
  std::optional<Instant> due;
  if (const auto cut = cut_at()) due = std::max(*cut, ways_.search_due);
  if (connection_ && connection_->relay()) {
    const auto direct = std::min(ways_.direct_due, own_now() + kTunnelLook);
    due = due ? std::min(*due, direct) : direct;
  }
  if (!due) return;
  queue_.at(clock_.world(*due), [this, life = agents_, timer = ++ways_.timers] {
    if (agent_ && life == agents_ && timer == ways_.timers && !frozen_since_) look();
  });
}

void Host::look() {
  const auto now = own_now();
  if (is_cut() && now >= ways_.search_due) {
    ways_.looks = true;
    return when_alive(kConfirm, [this] {
      if (is_cut()) return search();
      end_look();
    });
  }
  if (connection_ && connection_->relay()) {
    const std::string works = "the direct way works again";
    if (take_tunnel(works)) return;
    if (now >= ways_.direct_due) {
      ways_.looks = true;
      return look_for_direct(works);
    }
  }
  watch();
}

void Host::end_look() {
  const auto now = own_now();
  ways_.looks = false;
  ways_.search_due = now + rng_.between(kSearchPause, 2 * kSearchPause);
  ways_.direct_due = now + ways_.direct_pause;
  watch();
}

// ---- through another host

void Host::search() {
  const auto count = ways_.relays.size();
  ask(count == 0 ? 0 : rng_.below(count), 0);
}

void Host::ask(std::size_t first, std::size_t asked) {
  if (!is_cut()) return end_look();
  if (asked >= ways_.relays.size()) {
    if (connection_) {
      return look_for_direct("nothing is heard over this connection; another one works");
    }
    return end_look();
  }
  const auto& peer = ways_.relays[(first + asked) % ways_.relays.size()];
  const HostId id{peer.host()};
  const auto next = [this, first, asked] { ask(first, asked + 1); };
  if (connection_ && connection_->relay() == id) return next();
  if (!world_.reaches(setting_.id, id)) return when_alive(kRelayConnectLimit, next);
  auto& relay = world_.host(id);
  if (relay.relay_port() != peer.relay_port()) return when_alive(kRefusedTime, next);
  if (relay.is_frozen()) return when_alive(kRelayLimit, next);
  relay.asked_to_relay([this, id, next, life = agents_](Station* station) {
    if (!agent_ || life != agents_ || frozen_since_) return;
    if (station == nullptr) return when_alive(kRefusedTime, next);
    when_alive(kHandshakeTime, [this, id, next, station] { relayed(id, station, next); });
  });
}

void Host::relayed(HostId id, Station* station, const std::function<void()>& next) {
  if (!is_cut()) return end_look();  // heard again meanwhile
  auto& relay = world_.host(id);
  const auto open = relay.agent_ && !relay.frozen_since_ && world_.reaches(setting_.id, id) &&
                    relay.line_.passes();
  auto connection = open ? world_.connect(setting_.id, *station, Through{id, false}) : nullptr;
  if (!connection) return when_alive(kConnectLimit, next);
  relay.ways_.relayed.push_back(connection);
  take(std::move(connection), "nothing is heard of it; h" + std::to_string(id.value) + " relays");
}

/// Only while this agent hears the controller itself there is a point in passing bytes on.
void Host::asked_to_relay(std::function<void(Station*)> answer) {
  auto& relayed = ways_.relayed;
  std::erase_if(relayed, [](const auto& pipe) { return pipe.expired(); });
  const bool direct =
      connection_ && !connection_->relay() && !connection_->over_ssh() && !muted_ && !is_cut();
  if (!direct || relayed.size() >= kRelayedMax) return answer(nullptr);
  auto heard = [this, answer = std::move(answer)](bool spoke) {
    answer(spoke && agent_ && connection_ ? connection_->belongs_to : nullptr);
  };
  const auto number = ++ways_.asked;
  const auto limit = credited_ ? rng_.between(0ns, setting_.heartbeat) : kFrameLimit;
  ways_.waiting.push_back({number, std::move(heard)});
  queue_.after(limit, [this, number, life = agents_] {
    if (life == agents_) answer_waiting(number, credited_);
  });
}

/// All of them (nullopt), or the one of this number if it still waits.
void Host::answer_waiting(std::optional<std::uint64_t> number, bool spoke) {
  std::vector<Ways::Waiting> now;
  auto& waiting = ways_.waiting;
  const auto chosen = [&](const Ways::Waiting& one) { return !number || one.number == *number; };
  for (auto& one : waiting) {
    if (chosen(one)) now.push_back(std::move(one));
  }
  std::erase_if(waiting, [](const Ways::Waiting& one) { return one.answer == nullptr; });
  for (auto& one : now) one.answer(spoke);
}

/// Its process is gone, or its host: who was relayed finds out, or does not.
void Host::end_relaying(bool said) {
  answer_waiting(std::nullopt, false);
  for (const auto& pipe : std::exchange(ways_.relayed, {})) {
    if (const auto connection = pipe.lock()) world_.broke(connection, said);
  }
}

// ---- directly, or over SSH

void Host::look_for_direct(std::string reason) {
  if (take_tunnel(reason)) return;
  auto* controller = line_.passes() ? world_.controller_to_dial() : nullptr;
  if (controller == nullptr || dialling_blocked_ > 0) {
    return when_alive(line_.passes() ? kRefusedTime : kConnectLimit, [this] { end_look(); });
  }
  when_alive(kHandshakeTime, [this, before = connection_, controller, reason] {
    if (!before || before != connection_ || !line_.passes()) return end_look();
    auto connection = world_.connect(setting_.id, *controller, {});
    if (!connection) return end_look();
    take(std::move(connection), reason);
  });
}

bool Host::take_tunnel(const std::string& reason) {
  if (!offer_ || offer_->until < queue_.now()) return false;
  const auto offer = *std::exchange(offer_, std::nullopt);
  auto connection =
      line_.passes() ? world_.connect(setting_.id, *offer.station, Through{{}, true}) : nullptr;
  offer.taken(connection != nullptr);
  if (!connection) return false;
  take(std::move(connection), reason);
  return true;
}

void Host::take(std::shared_ptr<Connection> connection, const std::string& reason) {
  const auto life = agents_;
  if (connection_) {
    close_connection();
    feed(agent::ConnectionDown{reason});
  }
  if (!agent_ || life != agents_) return;
  connection_ = std::move(connection);
  ++connections_;
  received_ = 0;
  ways_.sent = 0;
  ways_.looks = false;
  ways_.opened_at = own_now();
  ways_.down_since.reset();
  ways_.path.opened(ways_.opened_at);
  ways_.direct_due = ways_.opened_at + ways_.direct_pause;
  const auto relay = connection_->relay();
  feed(agent::ConnectionUp{relay ? "h" + std::to_string(relay->value) : "",
                           connection_->over_ssh()});
  watch();
}

void Host::note_closed(const Connection& closed) {
  const auto now = own_now();
  ways_.path.closed();
  ways_.down_since = now;
  if (closed.over_ssh()) ways_.tunnel_first_until = now + kTunnelFirst;
  if (closed.relay()) return;
  const bool settled = now - ways_.opened_at >= kDirectSettled;
  ways_.direct_pause =
      settled ? Ways::kDirectPauseMin : std::min(ways_.direct_pause * 2, kDirectPauseMax);
}

void Host::lose_tunnel() {
  if (is_over_ssh()) world_.broke(connection_, true);
}

}  // namespace dlaunch::simulation
