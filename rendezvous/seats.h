// Which host sits where: seats in file order keep their ranks while hosts come and go.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "rendezvous/policy.h"

namespace dlaunch::rendezvous {

/// One seat per host of a full-sized job. A seat whose host is lost goes to a spare if there is
/// one, else it stays reserved and the job is smaller until its host, or another, is back.
class Seats {
 public:
  explicit Seats(const Policy& policy);

  struct Seating {
    std::vector<HostId> members;                      ///< in seat order
    std::vector<std::pair<HostId, HostId>> replaced;  ///< (lost, replacement)
  };
  /// `fit`: hosts that can take part now. nullopt: fewer than hosts_min of them; nothing changes.
  [[nodiscard]] std::optional<Seating> judge(const std::set<HostId>& fit) const;
  /// Of a host that can take part now, or can no more: what `size` goes by. O(log hosts), as size.
  void note_fit(HostId host, bool fit);
  [[nodiscard]] const std::set<HostId>& fit() const { return fit_; }
  /// How many hosts `judge` would find among those that are fit, without these; 0: too few.
  [[nodiscard]] std::size_t size(const std::set<HostId>& without) const;
  /// Keeps a seating that came from `judge`: the replaced hosts lose their seats.
  void take(const Seating& seating);

  [[nodiscard]] bool seated(HostId host) const { return seated_.contains(host); }
  [[nodiscard]] const std::vector<HostId>& holders() const { return holders_; }
  /// As an earlier incarnation left them; empty: as at the start.
  void restore(const std::vector<HostId>& holders);

 private:
  void count();

  std::vector<HostId> holders_;
  std::set<HostId> seated_;  ///< the same
  std::set<HostId> fit_;
  std::size_t present_ = 0;           ///< seated and fit
  std::vector<HostId> spares_first_;  ///< hosts that may fill a seat, in order of preference
  std::uint32_t hosts_min_;
  std::uint32_t hosts_step_;
  bool spare_first_;
};

}  // namespace dlaunch::rendezvous
