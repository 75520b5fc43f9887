#include "supervisor/host/probing.h"

#include <algorithm>
#include <utility>

namespace dlaunch::supervisor::host {

std::vector<ProbeCommand> Probing::step(Instant now, const ProbeEvent& event) {
  std::visit([&](const auto& e) { on(now, e); }, event);
  return std::exchange(out_, {});
}

void Probing::on(Instant now, const PeersGiven& e) {
  std::map<HostId, Target> targets;
  for (const auto& peer : e.peers.peers()) {
    if (peer.probe_port() == 0 || targets.size() >= kPeersMax) continue;
    const HostId host{peer.host()};
    const auto known = targets_.find(host);
    const bool same = known != targets_.end() && known->second.peer.address() == peer.address() &&
                      known->second.peer.probe_port() == peer.probe_port();
    auto& target = targets[host];
    if (same) target = std::move(known->second);
    target.peer = peer;
  }
  targets_ = std::move(targets);
  interval_ = std::max<nanoseconds>(std::chrono::milliseconds(e.peers.interval_ms()), 1ms);
  // Before the controller gives a silent host up, and after a flap of a few datagrams.
  silent_after_ = std::max(e.lost_after * 3 / 4, interval_);
  due_ = targets_.empty() ? std::optional<Instant>() : now;
  report(now);
}

void Probing::on(Instant now, const ProbeDue&) {
  if (!due_ || now < *due_) return;
  bool changed = false;
  for (auto& [host, target] : targets_) {
    if (target.answered && target.word != Target::Word::silent &&
        now - *target.answered >= silent_after_ && target.unanswered >= kUnansweredMin) {
      target.word = Target::Word::silent;
      changed = true;
    }
    target.outstanding[++number_] = now;
    ++target.unanswered;
    if (target.outstanding.size() > kOutstandingMax) {
      target.outstanding.erase(target.outstanding.begin());
    }
    out_.push_back(SendProbe{host, number_});
  }
  if (changed) report(now);
  // No probe is made up for: after a delay the next one is a whole interval away.
  due_ = now + interval_;
}

void Probing::on(Instant now, const ProbeAnswered& e) {
  const auto found = targets_.find(e.host);
  if (found == targets_.end()) return;
  auto& target = found->second;
  const auto sent = target.outstanding.find(e.number);
  if (sent == target.outstanding.end()) return;
  const bool timely = now - sent->second < silent_after_;
  // Those before it are as good as answered; none of them may count later.
  target.outstanding.erase(target.outstanding.begin(), std::next(sent));
  if (!timely) return;
  target.answered = now;
  target.unanswered = 0;
  if (target.word == Target::Word::answers) return;
  target.word = Target::Word::answers;
  report(now);
}

void Probing::on(Instant now, const ProbingStalled&) {
  bool changed = false;
  for (auto& [host, target] : targets_) {
    target.outstanding.clear();
    target.unanswered = 0;
    if (!target.answered) continue;
    target.answered = now;
    // Neither silent nor answering until its next answer, or until it has been asked for as long.
    changed = changed || target.word == Target::Word::silent;
    target.word = target.word == Target::Word::silent ? Target::Word::none : target.word;
  }
  if (changed) report(now);
}

void Probing::report(Instant now) {
  ReportPaths command;
  for (const auto& [host, target] : targets_) {
    if (target.word == Target::Word::none) continue;
    auto& path = *command.report.add_paths();
    path.set_host(host.value);
    path.set_answers(target.word == Target::Word::answers);
    path.set_silent_seconds(to_seconds(now - *target.answered));
  }
  out_.push_back(std::move(command));
}

}  // namespace dlaunch::supervisor::host
