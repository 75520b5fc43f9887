#include "simulation/station.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"

namespace dlaunch::simulation {

namespace control = launcher::controller;
namespace launch = launcher::launch;
namespace job = supervisor::job;

namespace {

constexpr nanoseconds kAlways = 24h * 3650;
// The longest that any machine may wait for one answer of the outside: start_limit, and some.
constexpr nanoseconds kWaitMax = 45min;
// What was announced has happened by then: it must not meet a host that is counted on once more.
constexpr nanoseconds kAnnounced = 10ms;

}  // namespace

Station::Station(control::Setting setting, std::uint64_t seed, Parts parts)
    : incarnation_(setting.incarnation),
      heartbeat_(setting.heartbeat),
      queue_(parts.queue),
      hosts_(parts.hosts),
      run_db_(parts.run_db),
      watcher_(parts.watcher),
      ssh_(parts.ssh),
      single_beats_(parts.single_beats),
      rng_(seed),
      jitter_(seed + 1),
      generation_(setting.recovered.last_generation),
      machine_(std::make_unique<control::Controller>(std::move(setting), jitter_, queue_.now())) {
  for (const auto& [id, host] : hosts_) sessions_[id] = {};
}

// ---- its life

void Station::kill() {
  if (!alive_) return;
  end_all_credit();
  alive_ = false;
  if (has_run_db_) run_db_.forget_waiting();
  for (auto& [id, session] : sessions_) {
    if (!session.connection) continue;
    auto& host = *hosts_.at(id);
    session.connection->to_host([&host, connection = session.connection] {
      host.connection_lost(connection, "the controller is gone");
    });
    session.connection.reset();
  }
}

void Station::bury() {
  if (alive_ || running_ || !machine_) return;
  machine_.reset();
  inbox_.clear();
  planting_.clear();
  for (auto& [id, session] : sessions_) session.sent = {};
}

void Station::freeze() {
  if (!alive_ || frozen_since_) return;
  end_all_credit();
  frozen_since_ = queue_.now();
}

void Station::thaw() {
  if (!alive_ || !frozen_since_) return;
  const auto gap = queue_.now() - *frozen_since_;
  frozen_since_.reset();
  if (gap > 250ms) inbox_.push_front(control::Stalled{gap});
  const auto due = machine_->next_deadline();
  if (due && *due <= queue_.now()) inbox_.push_back(control::DeadlineDue{});
  run();
}

void Station::cut_off() {
  end_all_credit();
  ++cuts_;
}

void Station::reconnect() {
  if (cuts_ > 0) --cuts_;
}

// ---- the machine

void Station::feed(control::Event event) {
  if (!alive_ || ended_) return;
  inbox_.push_back(std::move(event));
  run();
}

void Station::run() {
  if (running_ || frozen_since_) return;
  running_ = true;
  while (!inbox_.empty() && alive_ && !ended_) {
    auto commands = machine_->step(queue_.now(), std::move(inbox_.front()));
    inbox_.pop_front();
    for (auto& command : commands) {
      if (ended_) break;
      std::visit([this](auto& c) { perform(c); }, command);
    }
    watcher_.stepped(*this);
  }
  running_ = false;
  if (!alive_ || ended_) return;
  check_deadline();
  arm();
}

void Station::arm() {
  const auto due = machine_->next_deadline();
  if (!due || (armed_ && *armed_ <= *due && *armed_ > queue_.now())) return;
  armed_ = *due;
  queue_.at(*due, [this, due = *due] {
    if (!alive_ || ended_ || armed_ != due) return;
    armed_.reset();
    if (frozen_since_) return;
    const auto present = machine_->next_deadline();
    if (present && *present <= queue_.now()) {
      feed(control::DeadlineDue{});
    } else {
      arm();
    }
  });
}

/// S7: what is not finished waits for something that will come.
void Station::check_deadline() {
  if (state_ == job::JobState::running || !journaling_.empty() || !planting_.empty()) return;
  const auto due = machine_->next_deadline();
  if (!due || *due > queue_.now() + kWaitMax) {
    watcher_.broken(std::string("S7: the controller is ") + to_string(state_) +
                    " and waits for nothing");
  }
}

// ---- frames

void Station::frame_from_host(HostId host, const std::shared_ptr<Connection>& connection,
                              protocol::AgentFrame&& frame) {
  if (!alive_ || ended_) {
    hosts_.at(host)->connection_lost(connection, "the controller is gone");
    return;
  }
  auto& session = sessions_.at(host);
  session.begun = true;
  if (frame.has_hello()) {
    if (session.connection && session.connection != connection) {
      const auto older = session.connection;
      connection_closed(host, older, "another connection came");
    }
    set_loud(session, true);
    session = Session{true, true, false, session.loud_until, connection, {}, 0, 0, 0};
    beats_by_need();
  }
  if (session.connection != connection) return;  // closed by us, or replaced
  std::optional<Instant> acknowledged;
  const auto upto = std::min(frame.acknowledged(), session.delivered);
  if (session.acknowledged < upto) {
    const auto count = static_cast<std::ptrdiff_t>(upto - session.acknowledged);
    acknowledged = session.sent[upto - session.acknowledged - 1];
    session.sent.erase(session.sent.begin(), session.sent.begin() + count);
    session.acknowledged = upto;
  }
  session.heard = frame.number();
  const bool beat = frame.has_heartbeat();
  feed(control::AgentFrameCame{host, connection->number(), acknowledged, std::move(frame)});
  if (beat) consider_credit(host, session, acknowledged);
}

void Station::connection_closed(HostId host, const std::shared_ptr<Connection>& connection,
                                const std::string& reason) {
  if (auto& session = sessions_.at(host); session.connection == connection) {
    session.connection.reset();
    session.credited = false;
    set_loud(session, false);
    beats_by_need();
  }
  feed(control::AgentConnectionClosed{host, connection->number(), reason});
}

void Station::perform(control::SendToHosts& c) {
  const bool beat = c.frame.has_beat();
  check_journal(c.frame);
  if (c.frame.has_assign()) c.frame.mutable_assign()->set_token("token");
  const auto kind = beat ? Connection::Kind::beat : Connection::Kind::frame;
  const auto frame = std::make_shared<const protocol::ControllerFrame>(std::move(c.frame));
  for (const auto id : c.hosts) {
    auto& session = sessions_.at(id);
    if (!session.connection || (beat && session.credited)) continue;
    auto& host = *hosts_.at(id);
    session.connection->to_host(
        [&host, &session, connection = session.connection, sent = queue_.now(),
         acknowledged = session.heard, frame] {
          if (session.connection == connection) {
            session.sent.push_back(sent);
            ++session.delivered;
          }
          host.frame_from_controller(connection, session.delivered, acknowledged, frame);
        },
        kind);
  }
}

void Station::perform(control::CloseConnection& c) {
  watcher_.said(*this, "close", "h" + std::to_string(c.host.value) + ": " + c.reason);
  auto& session = sessions_.at(c.host);
  session.begun = true;
  if (!session.connection) return;
  auto& host = *hosts_.at(c.host);
  session.connection->to_host([&host, connection = session.connection, reason = c.reason] {
    host.connection_lost(connection, reason);
  });
  session.connection.reset();
  session.credited = false;
  set_loud(session, false);
  beats_by_need();
}

/// S10: what has an outside effect is in the journal before; aborts alone are not.
void Station::check_journal(const protocol::ControllerFrame& frame) {
  const Generation generation{frame.generation()};
  const bool effect = frame.has_prepare() || frame.has_inspect_checkpoints() ||
                      frame.has_find_mark() || frame.has_assign() || frame.has_go();
  if (effect && !run_db_.holds(generation)) {
    watcher_.broken("S10: generation " + std::to_string(generation.value) +
                    " begins before it is in the journal");
  }
  if (frame.has_commit() && !run_db_.holds(generation, Step{frame.commit().step()})) {
    watcher_.broken("S10: step " + std::to_string(frame.commit().step()) +
                    " is committed before it is in the journal");
  }
}

// ---- heartbeats that are credited

void Station::consider_credit(HostId id, Session& session, std::optional<Instant> acknowledged) {
  if (single_beats_ || session.credited || !session.connection || !acknowledged) return;
  if (!alive_ || frozen_since_ || cuts_ > 0) return;
  if (queue_.now() < session.loud_until) return;
  auto& host = *hosts_.at(id);
  if (host.connection() != session.connection || host.line().disturbed(queue_.now())) return;
  if (host.is_frozen() || session.connection->is_waiting()) return;
  if (session.connection->relay()) return;  // it looks for the direct way all the time
  if (*acknowledged + 3 * heartbeat_ < queue_.now()) return;
  session.credited = true;
  host.credit();
  feed(control::QuietUntil{id, queue_.now() + kAlways});
  set_loud(session, false);
  beats_by_need();
}

void Station::end_credit(HostId id) {
  auto& session = sessions_.at(id);
  session.loud_until = queue_.now() + kAnnounced;
  if (!session.credited) return;
  session.credited = false;
  hosts_.at(id)->end_credit();
  feed(control::QuietUntil{id, queue_.now() - rng_.between(0ns, heartbeat_)});
  set_loud(session, true);
  beats_by_need();
}

void Station::end_all_credit() {
  for (const auto& [id, session] : sessions_) {
    if (session.begun) end_credit(id);
  }
}

void Station::set_loud(Session& session, bool loud) {
  if (std::exchange(session.loud, loud) == loud) return;
  if (loud) {
    ++loud_;
  } else {
    --loud_;
  }
}

void Station::beats_by_need() {
  const bool needed = single_beats_ || loud_ > 0;
  if (std::exchange(beating_, needed) == needed) return;
  const auto next = needed ? rng_.between(0ns, heartbeat_) : kAlways;
  feed(control::QuietUntil{std::nullopt, queue_.now() + next});
}

}  // namespace dlaunch::simulation
