#include "rendezvous/roster.h"

#include <algorithm>

#include "base/mutant.h"

namespace dlaunch::rendezvous {

const char* to_string(HostState state) {
  switch (state) {
    case HostState::connecting:
      return "connecting";
    case HostState::ready:
      return "ready";
    case HostState::active:
      return "active";
    case HostState::spare:
      return "spare";
    case HostState::suspect:
      return "suspect";
    case HostState::lost:
      return "lost";
    case HostState::quarantined:
      return "quarantined";
    case HostState::drained:
      return "drained";
    case HostState::failed:
      return "failed";
  }
  return "unknown";
}

bool is_eligible(const Host& host) {
  return host.connected && host.fit && host.clean && !host.drained && !host.lost &&
         !host.link_down && !host.quarantined_until;
}

bool is_undecided(const Host& host, bool member, bool suspect) {
  if (!member || host.lost || host.drained) return false;
  return suspect || host.closed_at || host.ready_due;
}

bool is_pending(const Host& host) {
  if (host.drained || host.lost || host.state == HostState::failed) return false;
  return !is_eligible(host);
}

HostState judge_state(const Host& host, bool suspect, bool seated) {
  if (host.drained) return HostState::drained;
  if (host.quarantined_until) return HostState::quarantined;
  if (host.lost) return HostState::lost;
  if (suspect || host.closed_at || !host.relayed_by.empty()) return HostState::suspect;
  if (!host.connected) return host.cause.empty() ? HostState::connecting : HostState::failed;
  if (host.ready_due) return HostState::connecting;
  if (!host.fit || host.link_down) return HostState::failed;
  if (host.member) return HostState::active;
  if (!host.clean) return HostState::connecting;  // no use yet: old workers are being ended there
  return seated ? HostState::ready : HostState::spare;
}

Plan make_plan(Generation generation, const Seats::Seating& seating, const Roster& roster) {
  Plan plan;
  plan.generation = generation;
  plan.replaced = seating.replaced;
  for (const auto id : seating.members) {
    const auto& host = roster.at(id);
    plan.members.push_back({id, Rank{plan.world_size}, host.workers, host.data_address});
    plan.world_size += host.workers + (DL_MUTANT("ranks_not_dense") ? 1 : 0);
  }
  return plan;
}

std::string say_missing(const Roster& roster) {
  constexpr int kNamedMax = 8;
  std::string text;
  int named = 0;
  int more = 0;
  for (const auto& [id, host] : roster) {
    if (is_eligible(host)) continue;
    if (++named > kNamedMax) {
      ++more;
      continue;
    }
    text += (text.empty() ? "" : "; ") + host.entry.name + ": " + host.reason;
  }
  if (more > 0) text += "; and " + std::to_string(more) + " more hosts";
  return text;
}

std::string say_relayed(const std::string& by) {
  return "its control path is cut; " + by + " relays";
}

std::string say_ready(const Roster& roster, const Policy& policy) {
  const auto eligible = std::count_if(roster.begin(), roster.end(),
                                      [](const auto& entry) { return is_eligible(entry.second); });
  const auto wanted =
      policy.hosts_min == policy.hosts_max
          ? std::to_string(policy.hosts_max)
          : std::to_string(policy.hosts_min) + " to " + std::to_string(policy.hosts_max);
  return std::to_string(eligible) + " of " + std::to_string(roster.size()) + " hosts are ready, " +
         wanted + " wanted";
}

QuorumImpossible say_impossible(const Roster& roster, const Policy& policy) {
  QuorumImpossible answer;
  answer.sentence = say_ready(roster, policy) + "; " + say_missing(roster);
  std::size_t missing = 0, by_key = 0, by_files = 0;
  for (const auto& [id, host] : roster) {
    if (is_eligible(host)) continue;
    ++missing;
    if (host.by_files) ++by_files;
    if (host.cause == "host_key_unknown" || host.cause == "host_key_changed" ||
        host.cause == "auth_refused") {
      ++by_key;
    }
  }
  // One cause for all of them, or none: a mixture is hosts missing.
  answer.all_by_key = missing > 0 && by_key == missing;
  answer.by_files = missing > 0 && by_files == missing;
  return answer;
}

}  // namespace dlaunch::rendezvous
