// Where the workers of a generation listen, as Assign carries it to every host: a few bytes a rank,
// and less where the host has the list of a generation before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::protocol {

/// Where one rank listens.
struct Listening {
  std::string address;  ///< at most kAddressBytesMax
  std::uint16_t port = 0;
  friend bool operator==(const Listening&, const Listening&) = default;
};

/// Of ranks 0, 1, … of one generation.
struct EndpointList {
  Generation generation;  ///< 0: there is none yet
  std::vector<Listening> ranks;
};

/// Says all of it.
[[nodiscard]] Endpoints pack_endpoints(const std::vector<Listening>& ranks);
/// Says what differs from `base`.
[[nodiscard]] Endpoints pack_endpoints(const std::vector<Listening>& ranks,
                                       const EndpointList& base);

/// The inverse of both. An error when `packed` contradicts itself, says more than kRanksMax ranks,
/// or changes a list that is not `held`.
[[nodiscard]] Result<std::vector<Listening>> unpack_endpoints(const Endpoints& packed,
                                                              const EndpointList& held);

/// A list that many hold, never changed; null: there is none yet.
using SharedEndpoints = std::shared_ptr<const EndpointList>;
/// As `unpack_endpoints`, of this generation.
[[nodiscard]] Result<SharedEndpoints> read_endpoints(Generation generation, const Endpoints& packed,
                                                     const SharedEndpoints& held);
/// For those who have read the same before.
using EndpointReader =
    std::function<Result<SharedEndpoints>(Generation, const Endpoints&, const SharedEndpoints&)>;

}  // namespace dlaunch::protocol
