// The speed of an all-reduce between two or more processes, for bench/collectives.py.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "trainer/comm/io/mesh.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::comm;

constexpr int kWarmUps = 3;

/// Where the ranks listen, so that bench/collectives.py knows which end of a connection is which.
constexpr PortRange kPorts{20480, 20495};

struct Wanted {
  bool shares_memory = false;
  std::uint32_t connections = 1;  ///< of each pair of ranks
  std::uint32_t ranks = 2;
  std::size_t values = 0;
  int repeats = 0;
};

MeshSettings settings_for(const Wanted& wanted, Rank rank,
                          const std::vector<MeshListener>& listeners) {
  MeshSettings settings;
  settings.rank = rank;
  settings.world_size = wanted.ranks;
  settings.token = *token_from_hex("00112233445566778899aabbccddeeff");
  settings.generation = Generation{1};
  settings.share_memory = wanted.shares_memory;
  settings.connections = wanted.connections;
  for (std::uint32_t other = 0; other < wanted.ranks; ++other) {
    settings.endpoints.push_back(
        {Rank{other}, listeners[other].address(), listeners[other].port()});
  }
  return settings;
}

/// Prints the milliseconds of each repeat on rank 0.
int measure(const Wanted& wanted, Rank rank, std::vector<MeshListener>& listeners) {
  auto mesh = connect_mesh(listeners[rank.value], settings_for(wanted, rank, listeners),
                           std::make_shared<AbortFlag>());
  if (!mesh) {
    std::fprintf(stderr, "%s\n", mesh.error().error.text().c_str());
    return 1;
  }
  std::vector<float> buffer(wanted.values, 1.0F);
  for (int repeat = 0; repeat < wanted.repeats + kWarmUps; ++repeat) {
    std::ranges::fill(buffer, 1.0F);
    if (!(*mesh)->barrier()) return 1;
    const auto begun = std::chrono::steady_clock::now();
    if (!(*mesh)->all_reduce(buffer)) return 1;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    if (buffer.front() != static_cast<float>(wanted.ranks) || buffer.back() != buffer.front()) {
      std::fputs("the sum is wrong\n", stderr);
      return 1;
    }
    if (rank.value == 0 && repeat >= kWarmUps) std::printf("%.4f\n", took.count());
  }
  return (*mesh)->barrier() ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fputs("usage: collectives tcp1|tcp4|shm RANKS VALUES REPEATS\n", stderr);
    return 2;
  }
  Wanted wanted;
  const std::string kind = arguments[1];
  if (kind != "tcp1" && kind != "tcp4" && kind != "shm") {
    std::fprintf(stderr, "collectives: '%s' is none of tcp1, tcp4 and shm\n", kind.c_str());
    return 2;
  }
  wanted.shares_memory = kind == "shm";
  wanted.connections = kind == "tcp4" ? 4 : 1;
  wanted.ranks = static_cast<std::uint32_t>(std::strtoul(arguments[2], nullptr, 10));
  wanted.values = std::strtoul(arguments[3], nullptr, 10);
  wanted.repeats = static_cast<int>(std::strtol(arguments[4], nullptr, 10));

  std::vector<MeshListener> listeners;
  for (std::uint32_t rank = 0; rank < wanted.ranks; ++rank) {
    const auto host = wanted.shares_memory ? 1 : 1 + rank;
    auto listener = MeshListener::open("127.0.0." + std::to_string(host), kPorts, rank);
    if (!listener) {
      std::fprintf(stderr, "%s\n", listener.error().text().c_str());
      return 1;
    }
    listeners.push_back(std::move(*listener));
  }
  for (std::uint32_t rank = 1; rank < wanted.ranks; ++rank) {
    if (::fork() == 0) return measure(wanted, Rank{rank}, listeners);
  }
  int failed = measure(wanted, Rank{0}, listeners);
  for (int status = 0; ::wait(&status) > 0;) {
    if (status != 0) failed = 1;
  }
  return failed;
}
