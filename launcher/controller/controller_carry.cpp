// What one machine answers is an event for another, or an order to the hands.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "base/overloaded.h"
#include "launcher/controller/controller_impl.h"

namespace dlaunch::launcher::controller {

namespace job = supervisor::job;
namespace {

// Leave = SIGKILL + two scans of /proc on each host, in parallel; a host that is slower is named.
constexpr nanoseconds kLeaveLimit = 15s;

}  // namespace

// ---- between the machines: a queue, so that none is entered while it runs

void Controller::Impl::drain(Instant now) {
  constexpr int kInnerMax = 100'000;  // a start of 65,536 hosts stays below; more is a loop
  for (int count = 0; !inner_.empty() && !superseded_; ++count) {
    DL_CHECK(count < kInnerMax, "the machines of the controller come to rest after an event");
    // It stays in its place: what it leads to is added behind it, and nothing there moves.
    std::visit(Overloaded{[&](const launch::Event& e) { pass(launch_.step(now, e), now); },
                          [&](const rendezvous::Event& e) { pass(coordinator_.step(now, e), now); },
                          [&](const job::Event& e) {
                            if (!leave_due_) pass(job_.step(now, e), now);
                          }},
               inner_.front());
    inner_.pop_front();
  }
}

void Controller::Impl::carry(Instant, launch::HostFailed& c) {
  if (c.cause == launch::Cause::superseded) return become_superseded(c.sentence);
  const auto prefix = hosts_.at(c.host).name + ": ";
  auto reason = c.sentence.substr(c.sentence.starts_with(prefix) ? prefix.size() : 0);
  out_.push_back(Say{prefix + reason});
  tell(rendezvous::LaunchFailed{c.host, launch::to_string(c.cause), std::move(reason)});
}

void Controller::Impl::carry(Instant, rendezvous::HostBecame& c) {
  if (c.state == rendezvous::HostState::quarantined) {
    out_.push_back(FromJob{record("quarantined", c.host, c.reason)});
  }
}
void Controller::Impl::carry(Instant, rendezvous::HostSuspected& c) {
  out_.push_back(FromJob{record("host_suspected", c.host, std::move(c.sentence))});
}
void Controller::Impl::carry(Instant, rendezvous::HostCleared& c) {
  out_.push_back(FromJob{record("host_cleared", c.host, "")});
}
void Controller::Impl::carry(Instant now, rendezvous::HostLost& c) {
  if (leave_due_) return;  // it went as it was told
  peers_.gone(now, c.host);
  out_.push_back(FromJob{record("host_lost", c.host, c.sentence)});
  auto& host = hosts_.at(c.host);
  const auto why = host.name + " was lost: " + c.sentence;
  if (!DL_MUTANT("lost_host_not_replanted")) {
    inner_.push_back(launch::Event{launch::Replant{c.host, why}});
  }
  const auto id = c.host;
  inner_.push_back(job::Event{job::FromCoordinator{std::move(c)}});
  for (const auto& [judged, verdict] : preflight_.lost(id)) on_judged(judged, verdict);
}
void Controller::Impl::carry(Instant, rendezvous::DropHost& c) {
  auto& host = hosts_.at(c.host);
  if (host.connection != 0) --connected_;
  host.connection = 0;
  out_.push_back(CloseConnection{c.host, std::move(c.reason)});
}
void Controller::Impl::carry(Instant, rendezvous::Formed& c) {
  newest_ = c.plan.generation;
  members_.clear();
  for (const auto& member : c.plan.members) members_.insert(member.host);
  preflight_.settle(members_);
  inner_.push_back(job::Event{job::FromCoordinator{std::move(c)}});
}

/// Who says hello later with workers of that generation is told to end them.
void Controller::Impl::carry(Instant, rendezvous::NobodyCameBack& c) {
  members_.clear();
  inner_.push_back(job::Event{job::FromCoordinator{std::move(c)}});
  for (const auto& [id, verdict] : preflight_.start_over()) on_judged(id, verdict);
}

void Controller::Impl::carry(Instant, job::Send& c) {
  orders_.note(c);
  send(std::move(c.hosts), c.generation, std::move(c.body));
}
void Controller::Impl::carry(Instant, job::Form& c) {
  tell(rendezvous::FormAsked{std::move(c.without), std::move(c.reason)});
}
void Controller::Impl::carry(Instant, job::BlamedHost& c) {
  tell(rendezvous::HostBlamed{c.host, std::move(c.reason), c.beyond_doubt});
}
void Controller::Impl::carry(Instant, job::DataLinkJudged& c) {
  tell(rendezvous::DataLinkBecame{c.host, c.up, std::move(c.sentence), c.probed});
}
void Controller::Impl::carry(Instant now, job::Finish& c) {
  code_ = c.code;
  sentence_ = c.sentence;
  out_.push_back(FromJob{std::move(c)});
  inner_.push_back(launch::Event{launch::StopAll{}});
  leave_due_ = now + kLeaveLimit;
  order_to_leave(connected());
}

// ---- the end

void Controller::Impl::order_to_leave(std::vector<HostId> ids) {
  leaving_.insert(ids.begin(), ids.end());
  if (leaving_.empty()) return end_when_left();
  protocol::ControllerFrame frame;
  frame.mutable_leave()->set_reason(sentence_);
  send(std::move(ids), newest_, std::move(frame));
}
void Controller::Impl::left(HostId id) {
  if (!leave_due_ || leaving_.erase(id) == 0) return;
  end_when_left();
}
void Controller::Impl::end_when_left() {
  // After a restart some may still be on their way to this controller.
  if (!leaving_.empty()) return;
  const bool all_met =
      !met_until_ || std::all_of(hosts_.begin(), hosts_.end(),
                                 [](const auto& entry) { return entry.second.agent != 0; });
  if (all_met) end();
}
void Controller::Impl::become_superseded(const std::string& who) {
  superseded_ = true;
  out_.push_back(Superseded{who + "; incarnation " + std::to_string(setting_.incarnation.value) +
                            " is over, what runs is the newer one's"});
}
void Controller::Impl::end() {
  if (ended_) return;
  ended_ = true;
  for (const auto id : leaving_) {
    out_.push_back(Say{hosts_.at(id).name +
                       " did not say that it is clean; its agent ends by its lease, `dlaunch "
                       "clean` looks for leftovers"});
  }
  out_.push_back(Ended{code_, sentence_});
}

}  // namespace dlaunch::launcher::controller
