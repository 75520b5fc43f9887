// The hands of a controller process: planting by SSH, the journal, what is said.
#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "simulation/station.h"

namespace dlaunch::simulation {

namespace control = launcher::controller;
namespace launch = launcher::launch;
namespace job = supervisor::job;

namespace {

constexpr nanoseconds kSshTime = 150ms;
constexpr nanoseconds kSshSpread = 100ms;
constexpr nanoseconds kSshSlow = 12s;
constexpr nanoseconds kRefusedTime = 1ms;
constexpr nanoseconds kStartTime = 30ms;
constexpr nanoseconds kWelcomeLimit = 5s;  // then a tunnel is offered,
constexpr nanoseconds kOfferLimit = 8s;    // for so long
constexpr nanoseconds kLivingLimit = 5s;   // to an agent that was there before
constexpr nanoseconds kWelcomeLook = 50ms;

}  // namespace

// ---- planting

void Station::perform(control::PlantOrder& c) {
  if (const auto* order = std::get_if<launch::Plant>(&c.command)) {
    if (!planting_.insert({order->host, order->attempt}).second) {
      watcher_.broken("S6: a plant attempt is ordered twice");
    }
    return plant(order->host, order->attempt, order->connect_within);
  }
  if (const auto* cancel = std::get_if<launch::CancelPlant>(&c.command)) {
    if (planting_.erase({cancel->host, cancel->attempt}) == 1) {
      hosts_.at(cancel->host)->withdraw_tunnel();
    }
  }
}

void Station::plant(HostId id, std::uint64_t attempt, nanoseconds within) {
  // A tunnel of before is of no use any more, or the host would not be planted.
  auto& old = *hosts_.at(id);
  if (old.is_over_ssh() && old.connection()->belongs_to == this) old.lose_tunnel();
  if (ssh_ == SshTrouble::refused) {
    return plant_fails(id, attempt, launch::Cause::refused, kRefusedTime);
  }
  const auto time =
      kSshTime + rng_.between(0ns, kSshSpread) + (ssh_ == SshTrouble::slow ? kSshSlow : 0ns);
  if (time > within) return plant_fails(id, attempt, launch::Cause::silent, within);
  if (ssh_ == SshTrouble::wrong_key) {
    return plant_fails(id, attempt, launch::Cause::auth_refused, time);
  }
  queue_.after(time, [this, id, attempt, left = within - time] {
    auto& host = *hosts_.at(id);
    const bool reached = host.up() && host.line().passes() && cuts_ == 0;
    if (!reached) return plant_fails(id, attempt, launch::Cause::silent, left);
    plant_arrives(id, attempt);
  });
}

void Station::plant_fails(HostId id, std::uint64_t attempt, launch::Cause cause,
                          nanoseconds after) {
  queue_.after(after, [this, id, attempt, cause] {
    report(id, attempt,
           launch::PlantFailed{id, attempt, cause, std::string("ssh: ") + to_string(cause)}, true);
  });
}

void Station::plant_arrives(HostId id, std::uint64_t attempt) {
  if (!alive_ || ended_ || !planting_.contains({id, attempt})) return;
  report(id, attempt, launch::PlantProgress{id, attempt, launch::Stage::connected}, false);
  if (!planting_.contains({id, attempt})) return;
  const bool first = incarnation_.value == 1 && attempt == 1;
  if (first || !hosts_.at(id)->is_planted()) return plant_anew(id, attempt);
  // An agent that is there and was only cut off goes on.
  offer_tunnel(id, attempt, kLivingLimit);
  queue_.after(kLivingLimit, [this, id, attempt] {
    if (!alive_ || ended_ || !planting_.contains({id, attempt})) return;
    hosts_.at(id)->withdraw_tunnel();
    plant_anew(id, attempt);
  });
}

/// S11: an agent that its controller hears is not made to leave for another one.
void Station::plant_anew(HostId id, std::uint64_t attempt) {
  auto& host = *hosts_.at(id);
  const auto& session = sessions_.at(id);
  const bool heard = host.has_agent() && !host.is_frozen() && host.is_welcomed() &&
                     session.connection && session.connection == host.connection() &&
                     !session.connection->is_broken() && !session.connection->is_waiting() &&
                     session.acknowledged > 0;
  if (heard) {
    watcher_.broken("S11: the agent of h" + std::to_string(id.value) +
                    " is heard and is taken over all the same");
  }
  host.plant();
  queue_.after(kStartTime, [this, id, attempt] {
    report(id, attempt, launch::PlantProgress{id, attempt, launch::Stage::started}, false);
    await_welcome(id, attempt, queue_.now(), false);
  });
}

void Station::offer_tunnel(HostId id, std::uint64_t attempt, nanoseconds length) {
  const auto until = queue_.now() + length;
  hosts_.at(id)->offer_tunnel(
      {this, until, [this, id, attempt](bool passes) { tunnel_taken(id, attempt, passes); }});
}

void Station::tunnel_taken(HostId id, std::uint64_t attempt, bool passes) {
  if (!passes) return plant_fails(id, attempt, launch::Cause::silent, 0ns);
  report(id, attempt, launch::PlantProgress{id, attempt, launch::Stage::started}, false);
  report(id, attempt, launch::Planted{id, attempt}, true);
}

void Station::await_welcome(HostId id, std::uint64_t attempt, Instant began, bool offered) {
  if (!alive_ || !planting_.contains({id, attempt})) return;
  auto& host = *hosts_.at(id);
  if (host.has_agent() && host.connection() && host.is_welcomed()) {
    if (offered) host.withdraw_tunnel();
    return report(id, attempt, launch::Planted{id, attempt}, true);
  }
  if (queue_.now() >= began + kWelcomeLimit + kOfferLimit) {
    host.withdraw_tunnel();
    host.uproot();
    return report(id, attempt,
                  launch::PlantFailed{id, attempt, launch::Cause::cannot_dial_back,
                                      "it cannot reach the controller"},
                  true);
  }
  if (!offered && queue_.now() >= began + kWelcomeLimit) {
    offered = true;
    offer_tunnel(id, attempt, kOfferLimit);
  }
  queue_.after(kWelcomeLook,
               [this, id, attempt, began, offered] { await_welcome(id, attempt, began, offered); });
}

/// S6: each attempt is answered once; what a cancelled one still says goes nowhere.
void Station::report(HostId id, std::uint64_t attempt, const launch::Event& event, bool last) {
  if (!alive_ || !planting_.contains({id, attempt})) return;
  if (last) planting_.erase({id, attempt});
  feed(control::LaunchReported{event});
}

// ---- the journal and what is said

void Station::journal(job::Journal& entry) {
  const auto ticket = entry.ticket;
  journaling_.insert(ticket);
  if (!has_run_db_) {
    queue_.after(1s, [this, ticket] {
      if (alive_ && journaling_.contains(ticket)) {
        feed(control::ForJob{job::JournalFailed{"another controller has it"}});
      }
    });
    return;
  }
  run_db_.put({ticket, entry.kind, entry.json}, [this, ticket](bool written) {
    if (!alive_) return;
    if (!written) {
      feed(control::ForJob{job::JournalFailed{"No space left on device"}});
    } else if (journaling_.erase(ticket) == 1) {
      feed(control::ForJob{job::Journaled{ticket}});
    } else {
      watcher_.broken("S6: a record is written twice");
    }
  });
}

void Station::perform(control::FromJob& c) {
  std::visit(
      Overloaded{[&](job::Journal& entry) { journal(entry); },
                 [&](job::Record& record) {
                   generation_ = std::max(generation_, record.generation);
                   watcher_.recorded(*this, record);
                 },
                 [&](job::IncidentChanged& change) { watcher_.incident_changed(change.incident); },
                 [&](job::StateBecame& change) {
                   state_ = change.state;
                   watcher_.state_became(*this, change);
                 },
                 [](auto&) {}},
      c.command);
}

void Station::perform(control::Say& c) { watcher_.said(*this, "say", c.sentence); }

void Station::perform(control::Superseded&) { kill(); }

void Station::perform(control::Ended& c) {
  ended_ = true;
  end_all_credit();
  for (auto& [id, session] : sessions_) {
    if (!session.connection) continue;
    auto& host = *hosts_.at(id);
    session.connection->to_host([&host, connection = session.connection] {
      host.connection_lost(connection, "the job is over");
    });
  }
  watcher_.ended(*this, c.code, c.sentence);
}

}  // namespace dlaunch::simulation
