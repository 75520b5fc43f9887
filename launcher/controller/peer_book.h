// Who probes whom, and through whom each host's agent may reach the controller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dense_map.h"
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
  // Many hosts come and go at the same moment: the lists are looked at anew once for all of them.
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
  /// One line of a list: another line as soon as anything of it is another.
  struct Line {
    HostId host;
    std::uint32_t probe_port = 0;  ///< 0: it is not probed
    std::uint64_t version = 0;     ///< of what else is known of this host
    friend bool operator==(const Line&, const Line&) = default;
  };
  struct Known {
    protocol::Peer peer;
    std::uint64_t version = 0;  ///< 0: its agent has said nothing yet
    bool present = false;
    std::optional<std::vector<Line>> sent;  ///< the list that it has
  };
  /// `present`: all, in order; `at`: where this host is among them.
  [[nodiscard]] std::vector<Line> list_for(const std::vector<HostId>& present,
                                           std::size_t at) const;
  [[nodiscard]] protocol::Peers written(const std::vector<Line>& list) const;
  void change(Instant now);

  nanoseconds interval_;
  DenseMap<HostId, Known> hosts_;
  std::optional<Instant> due_;
};

}  // namespace dlaunch::launcher::controller
