#include "supervisor/job/link_watch.h"

#include <algorithm>

namespace dlaunch::supervisor::job {

bool LinkWatch::is_given_up(const Links& links) {
  return std::any_of(links.begin(), links.end(),
                     [](const auto& entry) { return entry.second.since && entry.second.given_up; });
}

void LinkWatch::down(HostId host, const std::string& link, Instant since) {
  auto& known = hosts_[host][link];
  if (!known.since) known.since = since;
}

LinkWatch::Up LinkWatch::up(HostId host, const std::string& link, Instant now) {
  Up answer;
  auto& links = hosts_[host];
  auto& known = links[link];
  if (!known.since) return answer;
  const bool given_up = is_given_up(links);
  answer.down = std::max(now - *known.since, 0ns);
  answer.flap = !known.given_up;
  known.since.reset();
  known.given_up = false;
  known.down_in_all += answer.down;
  if (answer.flap) ++known.flaps;
  answer.flaps = known.flaps;
  answer.down_in_all = known.down_in_all;
  answer.restored = given_up && !is_given_up(links);
  return answer;
}

bool LinkWatch::forget(HostId host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return false;
  const bool given_up = is_given_up(found->second);
  // What was counted stays: flaps are the host's, not its agent's.
  for (auto& [name, link] : found->second) {
    link.since.reset();
    link.given_up = false;
  }
  return given_up;
}

std::vector<LinkWatch::Broken> LinkWatch::take_broken(Instant now) {
  std::vector<Broken> broken;
  for (auto& [host, links] : hosts_) {
    for (auto& [name, link] : links) {
      if (!link.since || link.given_up || now < *link.since + window_) continue;
      const bool first = !is_given_up(links);
      link.given_up = true;
      if (first) broken.push_back({host, name, *link.since});
    }
  }
  return broken;
}

std::optional<Instant> LinkWatch::next_deadline() const {
  std::optional<Instant> deadline;
  for (const auto& [host, links] : hosts_) {
    for (const auto& [name, link] : links) {
      if (link.since && !link.given_up) deadline = earlier(deadline, *link.since + window_);
    }
  }
  return deadline;
}

}  // namespace dlaunch::supervisor::job
