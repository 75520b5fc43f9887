// Data links: ridden out for a moment, then their host is given up until they are back.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

std::string say_flap(const std::string& link, const LinkWatch::Up& up) {
  return link + " was down for " + format_duration(up.down) + "; " + std::to_string(up.flaps) +
         (up.flaps == 1 ? " time, " : " times, ") + format_duration(up.down_in_all) + " in all";
}

}  // namespace

void Job::Impl::on_link(Instant now, HostId host, const protocol::Evidence& evidence) {
  const auto& link = evidence.link_changed();
  const auto ago = nanoseconds(std::llround(std::clamp(evidence.seconds_ago(), 0.0, 1e6) * 1e9));
  if (link.up()) return link_up(now, host, link.interface());
  if (links_.down(host, link.interface(), now - ago)) {
    record("link_down", host, {}, link.interface());
  }
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::DataPathBecame& e) {
  if (e.up) return link_up(now, e.host, kPath);
  if (links_.down(e.host, kPath, e.since)) record("link_down", e.host, {}, e.sentence);
}

void Job::Impl::link_up(Instant now, HostId host, const std::string& link) {
  const auto up = links_.up(host, link, now);
  record("link_up", host, {}, link);
  if (up.flap) record("link_flap", host, {}, say_flap(link, up));
  if (up.restored) links_are_up(host);
}

void Job::Impl::links_are_up(HostId host) {
  out_.push_back(DataLinkJudged{host, true, {}});
  (void)journal("link", link_row(host, nullptr, names()));
}

void Job::Impl::give_up_link(const BrokenLink& broken) {
  out_.push_back(DataLinkJudged{broken.host, false, broken.sentence, broken.link == kPath});
  (void)journal("link", link_row(broken.host, &broken, names()));
}

/// Of a host that is lost the others know nothing any more; when it is back they look anew.
void Job::Impl::forget_path(Instant now, HostId host) {
  if (links_.up(host, kPath, now).restored) links_are_up(host);
}

void Job::Impl::on_links_broken(Instant now) {
  for (const auto& broken : links_.take_broken(now)) {
    const auto time = format_duration(now - broken.since);
    const auto sentence =
        broken.link == kPath ? "the other hosts have not reached it on the data network for " + time
                             : "its data link " + broken.link + " has been down for " + time;
    give_up_link({broken.host, broken.link, broken.since, sentence});
    if (!is_member(broken.host)) continue;
    blame(now, broken.host, sentence);
    Happening happening;
    happening.weight = Weight::host_fact;
    happening.cause = "link_down";
    happening.host = broken.host;
    happening.what = name(broken.host) + ": " + sentence;
    happening.happened_at = broken.since;
    happened(now, std::move(happening));
  }
}

}  // namespace dlaunch::supervisor::job
