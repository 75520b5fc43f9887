#include "trainer/comm/partition.h"

#include <algorithm>
#include <utility>

namespace dlaunch::comm {

Partition::Partition(std::vector<std::vector<ValueRange>> owned) : owned_(std::move(owned)) {
  for (const auto& ranges : owned_) {
    std::size_t count = 0;
    for (const auto& range : ranges) {
      count += range.count;
      end_ = std::max(end_, range.first + range.count);
    }
    largest_ = std::max(largest_, count);
    total_ += count;
  }
}

Partition Partition::even(std::size_t count, std::uint32_t world_size) {
  std::vector<std::vector<ValueRange>> owned(world_size);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    const std::size_t first = count * rank / world_size;
    owned[rank].push_back({first, count * (rank + 1) / world_size - first});
  }
  return Partition(std::move(owned));
}

std::vector<ValueRange> Partition::window(Rank rank, std::size_t first, std::size_t count) const {
  std::vector<ValueRange> result;
  std::size_t before = 0;  // values of the ranges so far
  for (const auto& range : of(rank)) {
    const std::size_t begin = std::max(first, before);
    const std::size_t end = std::min(first + count, before + range.count);
    if (begin < end) result.push_back({range.first + begin - before, end - begin});
    before += range.count;
  }
  return result;
}

}  // namespace dlaunch::comm
