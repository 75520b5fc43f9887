#include "rendezvous/admission.h"

#include "protocol/ip_bytes.h"

namespace dlaunch::rendezvous {

/// Makes a change to a source and keeps the orders true.
template <class Change>
void Admission::change(const std::string& name, Change make) {
  auto& source = sources_[name];
  const auto list = [&](bool in) {
    const auto set = [&](Order& order, std::size_t count, bool belongs) {
      if (!belongs) return;
      if (in) {
        order.emplace(count, name);
      } else {
        order.erase({count, name});
      }
    };
    set(by_places_, source.placed.size(), !source.placed.empty());
    set(next_, source.placed.size(), !source.waiting.empty());
    set(by_waiting_, source.waiting.size(), !source.waiting.empty());
  };
  list(false);
  make(source);
  list(true);
  if (source.placed.empty() && source.waiting.empty()) sources_.erase(name);
}

void Admission::remove(Connection connection) {
  const auto found = known_.find(connection);
  const auto known = found->second;
  known_.erase(found);
  if (known.placed) {
    (known.spoke ? speaking_ : silent_).erase({known.placed_at, connection});
  } else {
    --waiting_;
  }
  change(known.source, [&](Source& source) {
    if (known.placed) {
      source.placed.erase({known.placed_at, connection});
    } else {
      source.waiting.erase(connection);
    }
  });
}

void Admission::turn_out(Connection connection, Ruling& ruling) {
  remove(connection);
  std::erase(ruling.admitted, connection);
  ruling.turned_out.push_back(connection);
}

void Admission::admit(Instant now, const std::string& name, Ruling& ruling) {
  const auto newest = *sources_.at(name).waiting.rbegin();
  change(name, [&](Source& source) {
    source.waiting.erase(newest);
    source.placed.insert({now, newest});
  });
  --waiting_;
  auto& known = known_.at(newest);
  known.placed = true;
  known.placed_at = now;
  silent_.insert({now, newest});
  ruling.admitted.push_back(newest);
}

void Admission::settle(Instant now, Ruling& ruling) {
  while (waiting_ > 0) {
    const auto [own_places, name] = *next_.begin();
    if (placed() >= setting_.places_max) {
      const auto& [most, heaviest] = *by_places_.rbegin();
      if (most > own_places + 1) {
        turn_out(sources_.at(heaviest).placed.begin()->second, ruling);
      } else if (const auto late = overdue(now)) {
        turn_out(*late, ruling);
      } else {
        break;
      }
    }
    admit(now, name, ruling);
  }
  while (waiting_ > setting_.waiting_max) {
    turn_out(*sources_.at(by_waiting_.rbegin()->second).waiting.begin(), ruling);
  }
}

Admission::Ruling Admission::arrived(Instant now, const std::string& source,
                                     Connection connection) {
  known_[connection] = Known{source, {}, false};
  ++waiting_;
  change(source, [&](Source& of) { of.waiting.insert(connection); });
  Ruling ruling;
  settle(now, ruling);
  return ruling;
}

Admission::Ruling Admission::left(Instant now, Connection connection) {
  Ruling ruling;
  if (!known_.contains(connection)) return ruling;
  remove(connection);
  settle(now, ruling);
  return ruling;
}

Admission::Ruling Admission::due(Instant now) {
  Ruling ruling;
  settle(now, ruling);
  return ruling;
}

std::optional<Instant> Admission::next_deadline() const {
  std::optional<Instant> deadline;
  if (waiting_ == 0) return deadline;
  if (!speaking_.empty()) deadline = speaking_.begin()->first + setting_.patience;
  if (!silent_.empty()) {
    deadline = earlier(deadline, silent_.begin()->first + setting_.silent_patience);
  }
  return deadline;
}

std::optional<Admission::Connection> Admission::overdue(Instant now) const {
  if (!silent_.empty() && silent_.begin()->first + setting_.silent_patience <= now) {
    return silent_.begin()->second;
  }
  if (!speaking_.empty() && speaking_.begin()->first + setting_.patience <= now) {
    return speaking_.begin()->second;
  }
  return std::nullopt;
}

void Admission::spoke(Connection connection) {
  const auto found = known_.find(connection);
  if (found == known_.end() || !found->second.placed || found->second.spoke) return;
  found->second.spoke = true;
  const Place place{found->second.placed_at, connection};
  silent_.erase(place);
  speaking_.insert(place);
}

std::string source_of(const std::string& address) {
  const auto ipv6 = protocol::ipv6_from_text(address.substr(0, address.find('%')));
  if (!ipv6) return address;
  constexpr std::size_t kPrefixBytes = 8;
  return {ipv6->begin(), ipv6->begin() + kPrefixBytes};
}

}  // namespace dlaunch::rendezvous
