// The lines that tell what happened in a simulated world, in fixed columns.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/time.h"

namespace dlaunch::simulation {

/// Keeps the newest lines for whoever asks why; hands all of them to a sink where there is one.
class Trace {
 public:
  using Sink = std::function<void(const std::string& line)>;
  static constexpr std::size_t kLinesKept = 40;

  explicit Trace(Instant start, Sink sink = {}) : start_(start), sink_(std::move(sink)) {}

  /// "0:12:03.456  c1.g3  host_lost         h12 silent for 600 ms"
  void add(Instant now, const std::string& who, const std::string& what, const std::string& detail);
  [[nodiscard]] const std::deque<std::string>& newest() const { return newest_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  Instant start_;
  Sink sink_;
  std::deque<std::string> newest_;
  std::uint64_t hash_ = 14695981039346656037ULL;
};

}  // namespace dlaunch::simulation
