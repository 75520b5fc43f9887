#include "supervisor/job/link_watch.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dlaunch::supervisor::job {

bool LinkWatch::is_given_up(const Links& links) {
  return std::any_of(links.begin(), links.end(),
                     [](const auto& entry) { return entry.second.since && entry.second.given_up; });
}

bool LinkWatch::down(HostId host, const std::string& link, Instant since) {
  auto& known = hosts_[host][link];
  known.unnamed = false;
  if (known.since) return false;
  known.since = since;
  waiting_.insert({since, host, link});
  return true;
}

void LinkWatch::restore(HostId host, const std::string& link, Instant since, bool named) {
  auto& known = hosts_[host][link];
  known.since = since;
  known.given_up = true;
  known.unnamed = !named;
}

std::vector<std::string> LinkWatch::take_unnamed(HostId host) {
  std::vector<std::string> unnamed;
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return unnamed;
  for (auto& [name, link] : found->second) {
    if (std::exchange(link.unnamed, false)) unnamed.push_back(name);
  }
  return unnamed;
}

void LinkWatch::settle(HostId host, const std::string& name, Link& link) {
  if (link.since) waiting_.erase({*link.since, host, name});
  link.since.reset();
  link.given_up = link.unnamed = false;
}

LinkWatch::Up LinkWatch::up(HostId host, const std::string& link, Instant now) {
  Up answer;
  auto& links = hosts_[host];
  auto& known = links[link];
  if (!known.since) return answer;
  const bool given_up = is_given_up(links);
  answer.down = std::max(now - *known.since, 0ns);
  answer.flap = !known.given_up;
  settle(host, link, known);
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
  for (auto& [name, link] : found->second) settle(host, name, link);
  return given_up;
}

std::vector<LinkWatch::Broken> LinkWatch::take_broken(Instant now) {
  std::vector<Broken> over, broken;
  while (!waiting_.empty() && waiting_.begin()->since + window_ <= now) {
    const auto& waiting = *waiting_.begin();
    over.push_back({waiting.host, waiting.link, waiting.since});
    waiting_.erase(waiting_.begin());
  }
  std::sort(over.begin(), over.end(), [](const Broken& one, const Broken& other) {
    return std::tie(one.host, one.link) < std::tie(other.host, other.link);
  });
  for (auto& link : over) {
    auto& links = hosts_.at(link.host);
    const bool first = !is_given_up(links);
    links.at(link.link).given_up = true;
    if (first) broken.push_back(std::move(link));
  }
  return broken;
}

std::optional<Instant> LinkWatch::next_deadline() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->since + window_;
}

}  // namespace dlaunch::supervisor::job
