// Who probes whom, and through whom each host's agent may reach the controller.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "rendezvous/event.h"

namespace dlaunch::launcher::controller {

/// What an agent reported of those that it probes.
[[nodiscard]] rendezvous::PathsReported words_of(HostId prober, const protocol::PathReport& report);

/// Hosts in file order form a ring. Each probes the next two, so that each is probed by two, and
/// knows as relays these and two far away, which share less with it.
class PeerBook {
 public:
  // Many hosts come and go at the same moment: the lists are made anew once for all of them, which
  // takes 5 us a host.
  static constexpr nanoseconds kGather = 250ms;
  static constexpr std::size_t kProbed = 2;
  static constexpr std::size_t kRelaysMax = 4;

  /// `interval`: between probes of one host.
  explicit PeerBook(nanoseconds interval) : interval_(interval) {}

  /// Its agent's facts, whenever they come. One that listens to nobody is in no list.
  void present(Instant now, HostId host, const std::string& name, const protocol::Facts& facts);
  /// Lost, or its agent is gone: nobody asks it any more.
  void gone(Instant now, HostId host);
  /// A hello: whatever was sent to it before, it is sent its list again.
  void greeted(Instant now, HostId host);

  [[nodiscard]] std::optional<Instant> next_deadline() const { return due_; }
  /// The lists that are not what their hosts have, once they are due.
  [[nodiscard]] std::vector<std::pair<HostId, protocol::Peers>> take(Instant now);

 private:
  [[nodiscard]] protocol::Peers list_for(HostId host) const;
  void change(Instant now);

  nanoseconds interval_;
  std::map<HostId, protocol::Peer> present_;
  std::map<HostId, std::string> sent_;  ///< serialised
  std::optional<Instant> due_;
};

}  // namespace dlaunch::launcher::controller
