// Who is silent on the control path, who on the data path, and what follows from both.
#include <utility>

#include "base/probe.h"
#include "base/units.h"
#include "rendezvous/coordinator_impl.h"

namespace dlaunch::rendezvous {
namespace {

constexpr std::size_t kNamedMax = 4;
constexpr std::size_t kJudgedAtOnceMax = 16;
constexpr nanoseconds kSilenceGather = 20ms;  // of lost_after, which is 600 ms, a thirtieth

std::string names_of(const std::vector<HostId>& hosts, const Roster& roster) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size() && i < kNamedMax; ++i) {
    text += (text.empty() ? "" : ", ") + roster.at(hosts[i]).entry.name;
  }
  if (hosts.size() > kNamedMax) {
    text += " and " + std::to_string(hosts.size() - kNamedMax) + " more";
  }
  return text;
}

}  // namespace

bool Coordinator::Impl::is_heard(HostId id) const {
  return liveness_.is_watched(id) && !liveness_.is_suspect(id);
}

DataPaths::Heard Coordinator::Impl::heard() const {
  return [this](HostId id) { return is_heard(id); };
}

void Coordinator::Impl::on_suspect(Instant now, HostId id) {
  auto& h = host(id);
  const auto silent = now - liveness_.last_heard(id).value_or(now);
  if (h.relayed_by.empty()) {
    h.reason = "silent";
    out_.push_back(HostSuspected{id, "silent for " + format_duration(silent)});
  }
  refresh(id);
}

/// Heard again, and not through another host: nothing is suspected of it any more.
void Coordinator::Impl::calm(Instant now, HostId id) {
  auto& h = host(id);
  h.heard_since = now;
  h.reason = h.relayed_by.empty() ? "" : say_relayed(h.relayed_by);
  if (h.relayed_by.empty()) out_.push_back(HostCleared{id});
  refresh(id);
}

void Coordinator::Impl::on(Instant now, const PathsReported& e) {
  if (!paths_.report(e.prober, now, e.words)) return;
  silence_changed(now);
  judge_paths(now);
}

/// A few are judged at once. Of thousands that fall silent, or are heard again, one after the other
/// not each is looked at for the word of each.
void Coordinator::Impl::silence_changed(Instant now) {
  if (liveness_.suspects().size() <= kJudgedAtOnceMax) return judge_silent(now);
  if (!silence_due_ && !calm_until_) silence_due_ = now + kSilenceGather;
}

/// Every host that is silent for lost_after: given up, kept as suspect, or left for later because
/// it is rather the controller that is cut off.
void Coordinator::Impl::judge_silent(Instant now) {
  silence_due_.reset();
  if (calm_until_) return;  // after a restart of the controller all are given time to come back
  const auto expired = liveness_.expired(now);
  if (expired.empty()) return partition_.reset();
  const auto heard_now = heard();
  const auto broken = paths_.broken(heard_now);
  std::vector<HostId> given_up, unseen;
  for (const auto id : expired) {
    switch (paths_.judge(id, heard_now, broken)) {
      case DataPath::answers:
        hold_reachable(id, heard_now);
        break;
      case DataPath::silent:
        given_up.push_back(id);
        break;
      case DataPath::unknown:
        unseen.push_back(id);
        break;
    }
  }
  bool confirmed = !given_up.empty();
  for (const auto id : liveness_.suspects()) {
    confirmed = confirmed || paths_.judge(id, heard_now, broken) == DataPath::silent;
  }
  auto verdict = partition_.judge(now, liveness_.watched(), liveness_.suspects().size(), confirmed);
  if (!verdict.sentence.empty()) out_.push_back(StillWaiting{std::move(verdict.sentence)});
  for (const auto id : unseen) {
    if (verdict.convict) {
      given_up.push_back(id);
    } else {
      liveness_.hold(id);
    }
  }
  for (const auto id : given_up) give_up(now, id, heard_now);
}

void Coordinator::Impl::hold_reachable(HostId id, const DataPaths::Heard& heard_now) {
  liveness_.hold(id);
  auto& h = host(id);
  if (!h.relayed_by.empty()) return;
  const auto reason =
      "its control path is cut: " + names_of(paths_.witnesses(id, heard_now, true), roster_) +
      " still reaches it on the data path";
  if (std::exchange(h.reason, reason) == reason) return;
  out_.push_back(StillWaiting{h.entry.name + ": " + reason});
  changed_ = true;  // a new generation need not wait for what becomes of it
}

void Coordinator::Impl::give_up(Instant now, HostId id, const DataPaths::Heard& heard_now) {
  const auto last = liveness_.last_heard(id).value_or(now);
  auto sentence = "silent for " + format_duration(now - last);
  DL_PROBE("a silent host is given up");
  const auto witnesses = paths_.witnesses(id, heard_now, false);
  if (!witnesses.empty()) {
    sentence += ", to the probes of " + names_of(witnesses, roster_) + ", too";
  }
  lose(id, last, std::move(sentence));
  out_.push_back(DropHost{id, "the host was silent for too long and was given up"});
}

void Coordinator::Impl::lose(HostId id, Instant last_heard, std::string sentence) {
  auto& h = host(id);
  liveness_.forget(id);
  paths_.forget(id);
  broken_.erase(id);
  h.connected = false;
  h.closed_at.reset();
  h.ready_due.reset();
  h.relayed_by.clear();
  h.lost = true;
  h.member = false;
  h.clean = false;
  h.reason = sentence;
  returning_.insert(id);
  out_.push_back(HostLost{id, last_heard, std::move(sentence)});
  refresh(id);
}

/// Hosts that are heard and cannot be reached by the others. How long that is ridden out is the
/// job's matter.
void Coordinator::Impl::judge_paths(Instant now) {
  if (paths_.quiet() && broken_.empty()) return;
  const auto heard_now = heard();
  const auto broken = paths_.broken(heard_now);
  for (const auto& [id, silent_since] : broken) {
    if (!broken_.insert(id).second) continue;
    // What it did not answer while it was not heard either is no word on its data link.
    const auto since = std::max(silent_since, host(id).heard_since);
    out_.push_back(DataPathBecame{id, false, std::min(since, now),
                                  "the other hosts do not reach it on the data network"});
  }
  for (auto entry = broken_.begin(); entry != broken_.end();) {
    const auto id = *entry;
    // Of a host that is silent itself nothing new is known, nor while the probers are on their way
    // to a controller that was started again.
    if (broken.contains(id) || !is_heard(id) || calm_until_) {
      ++entry;
      continue;
    }
    entry = broken_.erase(entry);
    out_.push_back(DataPathBecame{id, true, now, {}});
  }
}

}  // namespace dlaunch::rendezvous
