// Who may begin a handshake: strangers hold places and memory before they have proved anything, so
// that both are bounded, and shared between the addresses that they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace dlaunch::rendezvous {

/// Pure. A connection waits (it is a descriptor and nothing else), has a place (its handshake goes
/// on), or is out. While there are places nobody waits. Then
/// - the source that has the fewest places is served next, with its newest connection: of a flood
///   those that waited longest are given up first, and so an agent among them is not always last;
/// - it takes the oldest place of the source that has the most, if that has two more than itself;
/// - else a place is given up after `patience`, which is many times what an agent needs; one of a
///   connection that has not said a word after `silent_patience`: an agent begins with one.
/// Of those that wait beyond the bound, the oldest of the source with the most is turned out.
class Admission {
 public:
  struct Setting {
    std::size_t places_max = 0;
    std::size_t waiting_max = 0;
    nanoseconds patience{}, silent_patience{};
  };
  using Connection = std::uint64_t;  ///< counted upwards as they come
  /// First close the ones, then begin the others' handshakes.
  struct Ruling {
    std::vector<Connection> turned_out, admitted;
  };
  explicit Admission(Setting setting) : setting_(setting) {}

  [[nodiscard]] Ruling arrived(Instant now, const std::string& source, Connection connection);
  /// Closed for any reason but a ruling, or proved. Unknown ones change nothing.
  [[nodiscard]] Ruling left(Instant now, Connection connection);
  /// Its first bytes are there.
  void spoke(Connection connection);
  [[nodiscard]] Ruling due(Instant now);
  /// When a place is given up because somebody waits.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] std::size_t placed() const { return speaking_.size() + silent_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }

 private:
  using Place = std::pair<Instant, Connection>;  ///< since when
  struct Source {
    std::set<Place> placed;
    std::set<Connection> waiting;
  };
  struct Known {
    std::string source;
    Instant placed_at;
    bool placed = false;
    bool spoke = false;
  };
  /// Sources by a count; most have the same.
  using Order = std::set<std::pair<std::size_t, std::string>>;

  template <class Change>
  void change(const std::string& source, Change make);
  void settle(Instant now, Ruling& ruling);
  void admit(Instant now, const std::string& source, Ruling& ruling);
  void turn_out(Connection connection, Ruling& ruling);
  void remove(Connection connection);
  [[nodiscard]] std::optional<Connection> overdue(Instant now) const;

  Setting setting_;
  std::map<std::string, Source> sources_;
  std::map<Connection, Known> known_;
  std::set<Place> speaking_, silent_;  ///< places
  std::size_t waiting_ = 0;
  Order by_places_;   ///< sources with a place
  Order next_;        ///< sources that wait, by their places
  Order by_waiting_;  ///< and by how many wait
};

/// What counts as one source: an IPv4 address, the first 64 bits of an IPv6 one. `address` is as
/// Asio writes it.
[[nodiscard]] std::string source_of(const std::string& address);

}  // namespace dlaunch::rendezvous
