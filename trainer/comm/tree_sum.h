// Sums of floats in the order of the canonical binary tree, within one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlaunch::comm {

/// Adds leaves 0, 1, 2, … as the binary tree by index does, with log2(leaves) buffers: memory is
/// allocated at first use and kept for the next step.
class TreeFold {
 public:
  explicit TreeFold(std::size_t count) : count_(count) {}

  /// The next leaf; `leaf` has `count` values and is read before the call returns.
  void add(std::span<const float> leaf);
  /// The last leaf, which makes the number of leaves a power of two: the sum ends in `leaf` itself.
  void finish(std::span<float> leaf);
  /// The sum, once a power of two of leaves was added. Valid until the next call.
  [[nodiscard]] std::span<float> sum();
  /// Starts over with leaf 0.
  void reset() { leaves_ = 0; }

  [[nodiscard]] std::uint32_t leaves() const { return leaves_; }

 private:
  std::size_t count_;
  std::uint32_t leaves_ = 0;
  std::vector<std::vector<float>> levels_;  ///< levels_[k] holds a node of 2^k leaves
};

/// into[i] += values[i], where the values lie at any address: four bytes of them each.
void add_values(std::span<float> into, std::span<const std::byte> values);

/// `nodes[r]` holds rank r's node (lanes.h); all have the same size and are used as scratch. The
/// sum in tree order ends in `nodes[result]`.
void sum_rank_nodes(std::span<const std::span<float>> nodes, std::size_t result);
void sum_rank_nodes(std::span<const std::span<double>> nodes, std::size_t result);

}  // namespace dlaunch::comm
