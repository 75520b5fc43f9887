#include "trainer/comm/io/mesh.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>

#include "trainer/comm/io/exchange.h"
#include "trainer/comm/io/group_communicator.h"
#include "trainer/comm/io/memory_sharing.h"
#include "trainer/comm/io/mesh_connector.h"
#include "trainer/comm/io/operation_queue.h"
#include "trainer/comm/lanes.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

CommFailure wrong(std::string doing) {
  return {FailureKind::local,
          {std::make_error_code(std::errc::invalid_argument), std::move(doing)},
          std::nullopt};
}

/// Endpoints by rank, or what is wrong with the settings.
CommResult<std::vector<MeshEndpoint>> check(const MeshSettings& settings) {
  const std::uint32_t world_size = settings.world_size;
  if (world_size < 1 || world_size > kWorldSizeMax || settings.rank.value >= world_size) {
    return tl::unexpected(wrong("rank " + std::to_string(settings.rank.value) + " of " +
                                std::to_string(world_size) + " is no place in a mesh"));
  }
  if (settings.stripe_bytes == 0) return tl::unexpected(wrong("a connection's turn has no bytes"));
  if (settings.connections > kConnectionsMax) {
    return tl::unexpected(wrong("two ranks have at most " + std::to_string(kConnectionsMax) +
                                " connections with each other, not " +
                                std::to_string(settings.connections)));
  }
  if (settings.token.size() < kTokenBytesMin) {
    return tl::unexpected(wrong("the token of the mesh is too short"));
  }
  std::vector<MeshEndpoint> by_rank(settings.endpoints);
  std::ranges::sort(by_rank, {}, &MeshEndpoint::rank);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    if (by_rank.size() != world_size || by_rank[rank].rank.value != rank) {
      return tl::unexpected(wrong("the endpoints of the mesh are not one for each of the " +
                                  std::to_string(world_size) + " ranks"));
    }
  }
  return by_rank;
}

/// Ranks at the same address are on the same host, as far as one can tell from here.
std::vector<Rank> neighbours_of(Rank self, const std::vector<MeshEndpoint>& endpoints) {
  std::vector<Rank> neighbours;
  for (const MeshEndpoint& endpoint : endpoints) {
    const bool same = endpoint.address == endpoints[self.value].address;
    if (same && endpoint.rank != self) neighbours.push_back(endpoint.rank);
  }
  return neighbours;
}

milliseconds left_of(milliseconds limit, Instant begun) {
  const auto spent = std::chrono::ceil<milliseconds>(trainer_now() - begun);
  return std::max(limit - spent, milliseconds(0));
}

}  // namespace

std::uint32_t connections_for(std::uint32_t world_size) {
  if (world_size <= 64) return 4;
  return world_size <= 128 ? 2 : 1;
}

std::optional<Token> token_from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0 || hex.size() / 2 < kTokenBytesMin) return std::nullopt;
  Token token;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const std::string_view pair = hex.substr(i, 2);
    unsigned value = 0;
    const auto parsed = std::from_chars(pair.data(), pair.data() + 2, value, 16);
    if (parsed.ec != std::errc() || parsed.ptr != pair.data() + 2) return std::nullopt;
    token.push_back(static_cast<std::byte>(value));
  }
  return token;
}

Result<MeshListener> MeshListener::open(const std::string& address, PortRange ports,
                                        std::uint32_t begin) {
  const std::uint32_t count = ports.last - ports.first + 1U;
  const std::uint32_t half = count / 2;
  auto at = half + begin % (count - half);
  const auto next = [&] { return static_cast<std::uint16_t>(ports.first + at++ % count); };
  auto socket = listen_on(address, ports.first == 0 ? std::uint16_t{0} : next());
  for (std::uint32_t tried = 1; !socket && tried < count; ++tried) {
    if (socket.error().code != std::errc::address_in_use) break;
    socket = listen_on(address, next());
  }
  if (!socket) return tl::unexpected(socket.error());
  const auto port = local_port(*socket);
  if (!port) return tl::unexpected(port.error());
  return MeshListener(std::move(*socket), address, *port);
}

CommResult<std::unique_ptr<Communicator>> connect_mesh(MeshListener& listener,
                                                       const MeshSettings& settings,
                                                       std::shared_ptr<AbortFlag> abort) {
  auto endpoints = check(settings);
  if (!endpoints) return tl::unexpected(endpoints.error());
  const auto connections =
      settings.connections == 0 ? connections_for(settings.world_size) : settings.connections;
  const MeshIdentity identity{settings.rank,        settings.world_size, settings.generation,
                              settings.group,       settings.token,      connections,
                              settings.stripe_bytes};
  const auto begun = trainer_now();
  MeshConnector connector(listener.fd(), identity, *endpoints, *abort, settings.connect_limit);
  auto connected = connector.run();
  if (!connected) return tl::unexpected(connected.error());
  Links links;
  for (auto& [sockets, name] : *connected) {
    if (sockets.empty()) {
      links.push_back(nullptr);
      continue;
    }
    auto first = std::move(sockets.front());
    sockets.erase(sockets.begin());
    links.push_back(std::make_unique<TcpLink>(std::move(first), std::move(name), std::move(sockets),
                                              settings.stripe_bytes));
  }
  const auto neighbours = neighbours_of(settings.rank, *endpoints);
  auto shared = share_memory(settings.rank, std::move(links), neighbours, settings.share_memory,
                             abort, left_of(settings.connect_limit, begun));
  if (!shared) return tl::unexpected(shared.error());
  auto exchange = std::make_unique<Exchange>(settings.rank, std::move(shared->links),
                                             std::move(abort), settings.group);
  auto queue = std::make_shared<OperationQueue>(
      std::move(exchange), QueueSettings{settings.operation_limit, settings.check_collectives});
  return std::make_unique<GroupCommunicator>(std::move(queue), std::move(shared->sentence));
}

}  // namespace dlaunch::comm
