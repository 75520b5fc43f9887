// The last output of every rank of the newest generations, for `dlaunch logs` and incidents.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::launcher::controller {

/// A piece of a rank's output, whole lines.
struct OutputChunk {
  Generation generation;
  Rank rank;
  HostId host;
  std::string host_name;
  bool error_stream = false;
  std::string text;
};
/// Shared with those who send or store it: nobody copies what all ranks have printed.
using OutputPiece = std::shared_ptr<const OutputChunk>;

/// Owned by the controller's hands. Bounded: bytes per rank and generation, generations, and all
/// together.
class OutputTail {
 public:
  static constexpr std::size_t kBytesPerRankMax = 64 * 1024;
  static constexpr std::size_t kGenerationsMax = 8;
  // 2,048 ranks × 64 KiB; beyond it the oldest generation goes, then the ranks with the most.
  static constexpr std::size_t kBytesMax = 128 * 1024 * 1024;

  explicit OutputTail(std::map<HostId, std::string> host_names = {})
      : host_names_(std::move(host_names)) {}

  /// What is kept of it, and what a follower is told: a gap is said in words.
  OutputPiece add(HostId host, Generation generation, const protocol::LogLines& lines);
  /// By generation, then rank, then time.
  [[nodiscard]] std::vector<OutputPiece> all() const;
  /// Of one generation, by rank, then time.
  [[nodiscard]] std::vector<OutputPiece> of(Generation generation) const;
  /// Of which there is output; nullopt: there is none at all.
  [[nodiscard]] std::optional<Generation> newest() const;

  /// Generations with output that has come since `saved`.
  [[nodiscard]] std::vector<Generation> unsaved() const;
  void saved(Generation generation);

 private:
  struct Kept {
    std::deque<OutputPiece> pieces;
    std::size_t bytes = 0;
  };
  struct OfGeneration {
    std::map<Rank, Kept> ranks;
    bool unsaved = false;
  };
  void shorten(Kept& kept, std::size_t bytes_max);
  void shorten_all();

  std::map<HostId, std::string> host_names_;
  std::map<Generation, OfGeneration> kept_;
  std::size_t bytes_ = 0;
};

}  // namespace dlaunch::launcher::controller
