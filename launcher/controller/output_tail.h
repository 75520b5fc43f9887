// The last output of every rank of the newest generations, for `dlaunch logs` and incidents.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::launcher::controller {

/// A piece of a rank's output, whole lines.
struct OutputChunk {
  Generation generation;
  Rank rank;
  HostId host;
  bool error_stream = false;
  std::string text;
};

/// Owned by the controller's hands. Bounded: bytes per rank and generation, generations, and all
/// together.
class OutputTail {
 public:
  static constexpr std::size_t kBytesPerRankMax = 64 * 1024;
  static constexpr std::size_t kGenerationsMax = 8;
  // 2,048 ranks × 64 KiB; beyond it the oldest generation goes, then the ranks with the most.
  static constexpr std::size_t kBytesMax = 128 * 1024 * 1024;

  /// What is kept of it, and what a follower is told: a gap is said in words.
  OutputChunk add(HostId host, Generation generation, const protocol::LogLines& lines);
  /// By generation, then rank, then time.
  [[nodiscard]] std::vector<OutputChunk> all() const;

 private:
  using Chunks = std::deque<OutputChunk>;
  struct Kept {
    Chunks chunks;
    std::size_t bytes = 0;
  };
  void shorten(Kept& kept, std::size_t bytes_max);
  void shorten_all();

  std::map<Generation, std::map<Rank, Kept>> kept_;
  std::size_t bytes_ = 0;
};

}  // namespace dlaunch::launcher::controller
