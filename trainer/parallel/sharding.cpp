#include "trainer/parallel/sharding.h"

#include <utility>
#include <vector>

#include "trainer/checkpoint/layout.h"

namespace dlaunch::trainer {

namespace {

checkpoint::RowRange rows_of_shard(std::uint64_t rows, const Sharing& sharing,
                                   std::uint32_t shard) {
  const auto first = shard * sharing.copies();
  const auto begin = checkpoint::rows_of_rank(rows, sharing.world_size, Rank{first});
  const auto last =
      checkpoint::rows_of_rank(rows, sharing.world_size, Rank{first + sharing.copies() - 1});
  return {begin.first, last.first + last.count - begin.first};
}

}  // namespace

ParameterLayout shard_of(const ParameterLayout& whole, const Sharing& sharing, Rank rank) {
  ParameterLayout shard = whole;
  shard.count = 0;
  for (auto& unit : shard.units) {
    unit.first = shard.count;
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      auto& parameter = shard.parameters[unit.first_parameter + i];
      const std::size_t row_values = parameter.row_values();
      const auto rows = rows_of_shard(parameter.rows, sharing, sharing.shard_of(rank).value);
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
                             const Sharing& sharing) {
  std::vector<std::vector<comm::ValueRange>> owned(sharing.shard_size);
  for (std::uint32_t shard = 0; shard < sharing.shard_size; ++shard) {
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      const auto& parameter = whole.parameters[unit.first_parameter + i];
      const std::size_t row_values = parameter.row_values();
      const auto rows = rows_of_shard(parameter.rows, sharing, shard);
      owned[shard].push_back(
          {parameter.first - unit.first + rows.first * row_values, rows.count * row_values});
    }
  }
  return comm::Partition(std::move(owned));
}

}  // namespace dlaunch::trainer
