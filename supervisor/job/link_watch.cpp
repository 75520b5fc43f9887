#include "supervisor/job/link_watch.h"

#include <utility>

namespace dlaunch::supervisor::job {

void LinkWatch::down(HostId host, std::string interface, Instant since) {
  links_.try_emplace(host, Link{std::move(interface), since, false});
}

bool LinkWatch::up(HostId host) {
  const auto found = links_.find(host);
  if (found == links_.end()) return false;
  const bool given_up = found->second.given_up;
  links_.erase(found);
  return given_up;
}

std::vector<LinkWatch::Broken> LinkWatch::take_broken(Instant now) {
  std::vector<Broken> broken;
  for (auto& [host, link] : links_) {
    if (link.given_up || now < link.since + window_) continue;
    link.given_up = true;
    broken.push_back({host, link.interface, link.since});
  }
  return broken;
}

std::optional<Instant> LinkWatch::next_deadline() const {
  std::optional<Instant> deadline;
  for (const auto& [host, link] : links_) {
    if (!link.given_up) deadline = earlier(deadline, link.since + window_);
  }
  return deadline;
}

}  // namespace dlaunch::supervisor::job
