#include "tests/trainer/comm/mesh_fixture.h"

#include <gtest/gtest.h>

#include <thread>

namespace dlaunch::comm {

Token test_token(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string name_of(LinkKind kind) {
  constexpr const char* kNames[] = {"tcp", "shm", "mixed", "striped"};
  return kNames[static_cast<int>(kind)];
}

TestMesh::TestMesh(std::uint32_t world_size, LinkKind kind) : kind_(kind) {
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const std::uint32_t host = kind == LinkKind::mixed     ? rank / 2
                               : kind == LinkKind::striped ? rank
                                                           : 0;
    auto listener = MeshListener::open("127.0.0." + std::to_string(1 + host));
    if (!listener) throw std::runtime_error(listener.error().text());
    listeners_.push_back(std::move(*listener));
    aborts_.push_back(std::make_shared<AbortFlag>());
  }
}

MeshSettings TestMesh::settings(std::uint32_t rank) const {
  MeshSettings settings;
  settings.rank = Rank{rank};
  settings.world_size = world_size();
  settings.token = test_token();
  settings.generation = Generation{7};
  settings.connect_limit = kSoon;
  settings.operation_limit = kSoon;
  settings.share_memory = kind_ != LinkKind::tcp;
  if (kind_ == LinkKind::striped) {
    settings.connections = 3;
    settings.stripe_bytes = 1001;  // so that frames and floats are cut, too
  }
  for (std::uint32_t other = 0; other < world_size(); ++other) {
    settings.endpoints.push_back(
        {Rank{other}, listeners_[other].address(), listeners_[other].port()});
  }
  return settings;
}

void TestMesh::run(const std::function<void(Communicator&)>& body) {
  run([this](std::uint32_t rank) { return settings(rank); }, body);
}

void TestMesh::run(const std::function<MeshSettings(std::uint32_t)>& settings,
                   const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    threads.emplace_back([&, rank] {
      auto mesh = connect_mesh(listeners_[rank], settings(rank), aborts_[rank]);
      if (mesh) {
        body(**mesh);
      } else {
        ADD_FAILURE() << "rank " << rank << ": " << mesh.error().error.text();
        for (const auto& abort : aborts_) abort->set("another rank did not connect");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dlaunch::comm
