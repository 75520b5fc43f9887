#include "trainer/parallel/sharding.h"

#include <utility>
#include <vector>

#include "trainer/checkpoint/layout.h"

namespace dlaunch::trainer {

ParameterLayout shard_of(const ParameterLayout& whole, std::uint32_t world_size, Rank rank) {
  ParameterLayout shard = whole;
  shard.count = 0;
  for (auto& unit : shard.units) {
    unit.first = shard.count;
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      auto& parameter = shard.parameters[unit.first_parameter + i];
      const std::size_t row_values = parameter.row_values();
      const auto rows = checkpoint::rows_of_rank(parameter.rows, world_size, rank);
      parameter.first_row = rows.first;
      parameter.rows = rows.count;
      parameter.first = shard.count;
      parameter.count = rows.count * row_values;
      shard.count += parameter.count;
    }
    unit.count = shard.count - unit.first;
  }
  return shard;
}

comm::Partition partition_of(const ParameterLayout& whole, const Unit& unit,
                             std::uint32_t world_size) {
  std::vector<std::vector<comm::ValueRange>> owned(world_size);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      const auto& parameter = whole.parameters[unit.first_parameter + i];
      const std::size_t row_values = parameter.row_values();
      const auto rows = checkpoint::rows_of_rank(parameter.rows, world_size, Rank{rank});
      owned[rank].push_back(
          {parameter.first - unit.first + rows.first * row_values, rows.count * row_values});
    }
  }
  return comm::Partition(std::move(owned));
}

}  // namespace dlaunch::trainer
