#include "protocol/endpoints.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "protocol/ip_bytes.h"
#include "protocol/limits.h"

namespace dlaunch::protocol {
namespace {

constexpr std::uint32_t kIpv6Follows = 0;
constexpr std::uint32_t kTextFollows = 0xFFFF'FFFF;
constexpr std::size_t kPortBytes = 2;

/// Ranks in a row at one address.
struct Place {
  std::string address;
  std::uint32_t ranks = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

std::vector<Place> places_of(const std::vector<Listening>& ranks) {
  std::vector<Place> places;
  for (const auto& rank : ranks) {
    if (places.empty() || places.back().address != rank.address) places.push_back({rank.address});
    ++places.back().ranks;
  }
  return places;
}

// ---- packing

void add_port(Endpoints& packed, std::uint16_t port) {
  packed.mutable_ports()->push_back(static_cast<char>(port >> 8U));
  packed.mutable_ports()->push_back(static_cast<char>(port & 0xFFU));
}

void add_place(Endpoints& packed, const Place& place) {
  if (const auto ipv4 = ipv4_from_text(place.address);
      ipv4 && *ipv4 != kIpv6Follows && *ipv4 != kTextFollows) {
    packed.add_ipv4(*ipv4);
  } else if (const auto ipv6 = ipv6_from_text(place.address)) {
    packed.add_ipv4(kIpv6Follows);
    packed.mutable_ipv6()->append(ipv6->begin(), ipv6->end());
  } else {
    packed.add_ipv4(kTextFollows);
    packed.add_texts(to_utf8(place.address, kAddressBytesMax));
  }
  packed.add_ranks(place.ranks);
}

/// The last number stands for those after it that are equal.
void shorten_ranks(Endpoints& packed) {
  auto& ranks = *packed.mutable_ranks();
  while (ranks.size() > 1 && ranks[ranks.size() - 1] == ranks[ranks.size() - 2]) ranks.RemoveLast();
}

using Numbers = google::protobuf::RepeatedField<std::uint32_t>;

/// Endpoints.place_runs.
class PlaceRuns {
 public:
  /// The next place: one of the base, or a new one.
  void add(std::optional<std::size_t> kept) {
    const bool goes_on = !runs_.empty() && (!kept || (*kept == next_ && runs_.back().fresh == 0));
    if (!goes_on) runs_.push_back({kept ? static_cast<std::uint32_t>(*kept - next_) : 0U, 0, 0});
    ++(kept ? runs_.back().kept : runs_.back().fresh);
    if (kept) next_ = *kept + 1;
  }
  void write(Numbers& numbers) const {
    for (const auto& run : runs_) {
      for (const auto number : {run.passed, run.kept, run.fresh}) numbers.Add(number);
    }
  }

 private:
  struct Run {
    std::uint32_t passed = 0, kept = 0, fresh = 0;
  };
  std::vector<Run> runs_;
  std::size_t next_ = 0;  ///< of the base's places
};

/// Endpoints.port_runs.
class PortRuns {
 public:
  void add(bool kept) {
    if (runs_.empty() || (kept && runs_.back().changed > 0)) runs_.emplace_back();
    ++(kept ? runs_.back().kept : runs_.back().changed);
  }
  void write(Numbers& numbers) const {
    for (const auto& run : runs_) {
      for (const auto number : {run.kept, run.changed}) numbers.Add(number);
    }
  }

 private:
  struct Run {
    std::uint32_t kept = 0, changed = 0;
  };
  std::vector<Run> runs_;
};

/// Which place of the base each place is; nullopt: a new one. Both lists follow the order of hosts,
/// so that a place is looked for from where the last one was found on.
std::vector<std::optional<std::size_t>> match(const std::vector<Place>& places,
                                              const std::vector<Place>& base) {
  std::vector<std::pair<const Place*, std::size_t>> known;
  for (std::size_t i = 0; i < base.size(); ++i) known.emplace_back(&base[i], i);
  const auto less = [](const auto& one, const auto& other) {
    return std::pair(std::string_view(one.first->address), one.second) <
           std::pair(std::string_view(other.first->address), other.second);
  };
  std::sort(known.begin(), known.end(), less);
  std::vector<std::optional<std::size_t>> found;
  std::size_t next = 0;
  for (const auto& place : places) {
    const auto at = std::lower_bound(known.begin(), known.end(), std::pair(&place, next), less);
    const bool same = at != known.end() && *at->first == place;
    found.push_back(same ? std::optional(at->second) : std::nullopt);
    if (same) next = at->second + 1;
  }
  return found;
}

std::vector<std::uint32_t> first_ranks(const std::vector<Place>& places) {
  std::vector<std::uint32_t> first;
  std::uint32_t sum = 0;
  for (const auto& place : places) {
    first.push_back(sum);
    sum += place.ranks;
  }
  return first;
}

// ---- unpacking

tl::unexpected<Error> refuse(const char* why) {
  return failure(std::errc::bad_message, std::string("reading the endpoints of all ranks: ") + why);
}

/// Takes the columns of new places one by one.
class NewPlaces {
 public:
  explicit NewPlaces(const Endpoints& packed) : packed_(packed) {}

  [[nodiscard]] bool all_taken() const {
    return next_ == packed_.ipv4_size() && ipv6_taken_ == packed_.ipv6().size() &&
           texts_taken_ == packed_.texts_size() && packed_.ranks_size() <= std::max(next_, 0);
  }
  /// nullopt: there is none, or it is not whole.
  [[nodiscard]] std::optional<Place> take() {
    if (next_ >= packed_.ipv4_size() || packed_.ranks_size() == 0) return std::nullopt;
    Place place;
    place.ranks = packed_.ranks(std::min(next_, packed_.ranks_size() - 1));
    const auto ipv4 = packed_.ipv4(next_++);
    if (ipv4 == kTextFollows) {
      if (texts_taken_ >= packed_.texts_size()) return std::nullopt;
      place.address = packed_.texts(texts_taken_++);
    } else if (ipv4 == kIpv6Follows) {
      Ipv6Bytes bytes{};
      if (packed_.ipv6().size() - ipv6_taken_ < bytes.size()) return std::nullopt;
      std::copy_n(packed_.ipv6().begin() + static_cast<std::ptrdiff_t>(ipv6_taken_), bytes.size(),
                  bytes.begin());
      ipv6_taken_ += bytes.size();
      place.address = ipv6_text(bytes);
    } else {
      place.address = ipv4_text(ipv4);
    }
    if (place.ranks == 0 || place.address.size() > kAddressBytesMax) return std::nullopt;
    return place;
  }

 private:
  const Endpoints& packed_;
  int next_ = 0;
  std::size_t ipv6_taken_ = 0;
  int texts_taken_ = 0;
};

constexpr const char* kBroken = "a place is missing or broken, or there are too many ranks";
constexpr const char* kPorts = "there is not one port for each rank";

/// The ranks of the new list, first by places, then with their ports.
class Unpacking {
 public:
  Unpacking(const Endpoints& packed, const EndpointList& held)
      : packed_(packed), held_(held), fresh_(packed) {}

  [[nodiscard]] Result<std::vector<Listening>> whole() {
    if (packed_.place_runs_size() > 0 || packed_.port_runs_size() > 0) {
      return refuse("they change a list that is not named");
    }
    if (!add_fresh(static_cast<std::uint32_t>(packed_.ipv4_size()))) return refuse(kBroken);
    if (!take_ports(0, ranks_.size())) return refuse(kPorts);
    return finish();
  }

  [[nodiscard]] Result<std::vector<Listening>> changed() {
    if (packed_.base() != held_.generation.value) return refuse("they change a list not held here");
    if (packed_.place_runs_size() % 3 != 0 || packed_.port_runs_size() % 2 != 0) {
      return refuse("a run is cut off");
    }
    const auto base = places_of(held_.ranks);
    std::size_t place = 0, rank = 0;  // of the base, not looked at yet
    for (int i = 0; i < packed_.place_runs_size(); i += 3) {
      const std::size_t passed = packed_.place_runs(i), kept = packed_.place_runs(i + 1);
      if (passed > base.size() - place || kept > base.size() - place - passed) {
        return refuse("they keep places that are not in the list that they change");
      }
      for (const auto end = place + passed; place < end; ++place) rank += base[place].ranks;
      for (const auto end = place + kept; place < end; ++place) {
        if (!add(base[place].ranks, {}, rank)) return refuse(kBroken);
        rank += base[place].ranks;
      }
      if (!add_fresh(packed_.place_runs(i + 2))) return refuse(kBroken);
    }
    std::size_t at = 0;
    for (int i = 0; i < packed_.port_runs_size(); i += 2) {
      const std::size_t kept = packed_.port_runs(i), changed = packed_.port_runs(i + 1);
      for (std::size_t end = at + kept; at < end; ++at) {
        if (at >= ranks_.size() || !kept_[at]) return refuse(kPorts);
      }
      if (!take_ports(at, changed)) return refuse(kPorts);
      at += changed;
    }
    if (at != ranks_.size()) return refuse(kPorts);
    return finish();
  }

 private:
  /// `count` ranks at one address: those of the base from `from` on, or new ones.
  bool add(std::uint32_t count, const std::string& address, std::optional<std::size_t> from) {
    if (count > kRanksMax - ranks_.size()) return false;
    for (std::size_t i = 0; i < count; ++i) {
      ranks_.push_back(from ? held_.ranks[*from + i] : Listening{address, 0});
    }
    kept_.resize(ranks_.size(), from.has_value());
    return true;
  }

  bool add_fresh(std::uint32_t count) {
    for (; count > 0; --count) {
      const auto place = fresh_.take();
      if (!place || !add(place->ranks, place->address, {})) return false;
    }
    return true;
  }

  bool take_ports(std::size_t at, std::size_t count) {
    const auto& ports = packed_.ports();
    if (count > ranks_.size() - at || count * kPortBytes > ports.size() - ports_taken_) {
      return false;
    }
    for (const auto end = at + count; at < end; ++at, ports_taken_ += kPortBytes) {
      const auto high = static_cast<unsigned char>(ports[ports_taken_]);
      const auto low = static_cast<unsigned char>(ports[ports_taken_ + 1]);
      ranks_[at].port = static_cast<std::uint16_t>(high << 8U | low);
    }
    return true;
  }

  Result<std::vector<Listening>> finish() {
    if (!fresh_.all_taken()) return refuse("more is said of places than there are");
    if (ports_taken_ != packed_.ports().size()) return refuse(kPorts);
    return std::move(ranks_);
  }

  const Endpoints& packed_;
  const EndpointList& held_;
  NewPlaces fresh_;
  std::vector<Listening> ranks_;
  std::vector<bool> kept_;  ///< by rank: its place, and its port so far, are the base's
  std::size_t ports_taken_ = 0;
};

}  // namespace

Endpoints pack_endpoints(const std::vector<Listening>& ranks) {
  Endpoints packed;
  for (const auto& place : places_of(ranks)) add_place(packed, place);
  shorten_ranks(packed);
  packed.mutable_ports()->reserve(ranks.size() * kPortBytes);
  for (const auto& rank : ranks) add_port(packed, rank.port);
  return packed;
}

Endpoints pack_endpoints(const std::vector<Listening>& ranks, const EndpointList& base) {
  Endpoints packed;
  packed.set_base(base.generation.value);
  const auto places = places_of(ranks), known = places_of(base.ranks);
  const auto first_known = first_ranks(known);
  const auto kept = match(places, known);
  PlaceRuns place_runs;
  PortRuns port_runs;
  std::size_t rank = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    place_runs.add(kept[i]);
    if (!kept[i]) add_place(packed, places[i]);
    for (std::uint32_t j = 0; j < places[i].ranks; ++j, ++rank) {
      const bool same = kept[i] && base.ranks[first_known[*kept[i]] + j].port == ranks[rank].port;
      port_runs.add(same);
      if (!same) add_port(packed, ranks[rank].port);
    }
  }
  shorten_ranks(packed);
  place_runs.write(*packed.mutable_place_runs());
  port_runs.write(*packed.mutable_port_runs());
  return packed;
}

Result<std::vector<Listening>> unpack_endpoints(const Endpoints& packed, const EndpointList& held) {
  Unpacking unpacking(packed, held);
  return packed.base() == 0 ? unpacking.whole() : unpacking.changed();
}

Result<SharedEndpoints> read_endpoints(Generation generation, const Endpoints& packed,
                                       const SharedEndpoints& held) {
  static const EndpointList kNone;
  auto ranks = unpack_endpoints(packed, held ? *held : kNone);
  if (!ranks) return tl::unexpected<Error>(std::move(ranks.error()));
  return std::make_shared<const EndpointList>(EndpointList{generation, std::move(*ranks)});
}

}  // namespace dlaunch::protocol
