#include "tests/trainer/gpu/one_rank.h"

#include <string_view>
#include <utility>

namespace dlaunch::comm {

MeshSettings mesh_settings(std::uint32_t rank, std::span<const MeshListener> listeners) {
  constexpr std::string_view kToken = "the token of these checks";
  MeshSettings settings;
  settings.rank = Rank{rank};
  settings.world_size = static_cast<std::uint32_t>(listeners.size());
  const auto bytes = std::as_bytes(std::span(kToken));
  settings.token = {bytes.begin(), bytes.end()};
  settings.generation = Generation{1};
  for (std::uint32_t other = 0; other < settings.world_size; ++other) {
    settings.endpoints.push_back(
        {Rank{other}, listeners[other].address(), listeners[other].port()});
  }
  return settings;
}

CommResult<OneRank> open_one_rank(const DeviceSettings& settings) {
  OneRank one;
  auto listener = MeshListener::open("127.0.0.1");
  if (!listener) {
    return tl::unexpected(CommFailure{FailureKind::local, listener.error(), std::nullopt});
  }
  auto mesh = connect_mesh(*listener, mesh_settings(0, {&*listener, 1}), one.abort);
  if (!mesh) return tl::unexpected(mesh.error());
  one.mesh = std::move(*mesh);
  auto session = DeviceSession::open(*one.mesh, settings, one.abort);
  if (!session) return tl::unexpected(session.error());
  one.session = std::move(*session);
  auto group = NcclCommunicator::connect(one.session, *one.mesh, "main");
  if (!group) return tl::unexpected(group.error());
  one.group = std::move(*group);
  return one;
}

}  // namespace dlaunch::comm
