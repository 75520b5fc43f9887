// A whole mesh in one process: one thread per rank on loopback.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/io/mesh.h"

namespace dlaunch::comm {

/// One generous deadline for everything that must happen.
constexpr milliseconds kSoon = 30s;

/// How ranks reach each other: what holds for collectives and failures holds with each.
enum class LinkKind {
  tcp,
  shm,
  mixed,    ///< two ranks a host
  striped,  ///< a rank a host, three connections that have turns of a few bytes
};
constexpr LinkKind kLinkKinds[] = {LinkKind::tcp, LinkKind::shm, LinkKind::mixed,
                                   LinkKind::striped};
[[nodiscard]] std::string name_of(LinkKind kind);

class TestMesh {
 public:
  explicit TestMesh(std::uint32_t world_size, LinkKind kind = LinkKind::shm);

  [[nodiscard]] std::uint32_t world_size() const {
    return static_cast<std::uint32_t>(listeners_.size());
  }
  [[nodiscard]] MeshListener& listener(std::uint32_t rank) { return listeners_[rank]; }
  [[nodiscard]] MeshSettings settings(std::uint32_t rank) const;
  [[nodiscard]] std::shared_ptr<AbortFlag> abort(std::uint32_t rank) { return aborts_[rank]; }

  /// Connects all ranks and runs `body` for each on its own thread.
  void run(const std::function<void(Communicator&)>& body);
  /// The same with other settings per rank.
  void run(const std::function<MeshSettings(std::uint32_t)>& settings,
           const std::function<void(Communicator&)>& body);

 private:
  LinkKind kind_;
  std::vector<MeshListener> listeners_;
  std::vector<std::shared_ptr<AbortFlag>> aborts_;
};

[[nodiscard]] Token test_token(const std::string& text = "the token of this generation");

}  // namespace dlaunch::comm
