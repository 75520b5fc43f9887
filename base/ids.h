// Ids of different kinds do not convert into each other.
#pragma once

#include <compare>
#include <cstdint>

namespace dlaunch {

template <class Tag, class Value>
struct StrongId {
  Value value{};
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

/// Position of a host in the expanded hosts file, spares included; file order is rank order.
using HostId = StrongId<struct HostTag, std::uint32_t>;
/// Global rank of a worker, dense from 0 within a generation.
using Rank = StrongId<struct RankTag, std::uint32_t>;
/// A numbered, immutable answer to "who is in": hosts, ranks, addresses, restore point. From 1.
using Generation = StrongId<struct GenerationTag, std::uint64_t>;
/// Start number of the controller; agents obey only the highest they have seen. From 1.
using Incarnation = StrongId<struct IncarnationTag, std::uint64_t>;
/// Number of optimizer steps taken; step N is the state after N of them.
using Step = StrongId<struct StepTag, std::uint64_t>;

}  // namespace dlaunch
