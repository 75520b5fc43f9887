#include "trainer/comm/io/collectives.h"

#include <algorithm>

#include "trainer/comm/byte_order.h"
#include "trainer/comm/tree_sum.h"

namespace dlaunch::comm {
namespace {

/// The part of a piece that `rank` owns.
std::span<float> chunk_of(std::span<float> piece, std::uint32_t world_size, std::uint32_t rank) {
  const std::size_t first = piece.size() * rank / world_size;
  const std::size_t last = piece.size() * (rank + 1) / world_size;
  return piece.subspan(first, last - first);
}

/// The sum of this rank's chunk of `piece` over all ranks, in place.
CommResult<void> reduce_own_chunk(Exchange& exchange, const Stage& stage, std::span<float> piece,
                                  Scratch& scratch) {
  const std::uint32_t world_size = exchange.world_size();
  const std::uint32_t self = exchange.self().value;
  const auto own = chunk_of(piece, world_size, self);
  scratch.values.resize(std::max(scratch.values.size(), own.size() * (world_size - 1)));
  std::vector<std::span<float>> nodes(world_size);
  std::size_t used = 0;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    nodes[rank] = own;
    if (rank == self) continue;
    nodes[rank] = std::span(scratch.values).subspan(used, own.size());
    used += own.size();
    scratch.transfers[rank].send = std::as_bytes(chunk_of(piece, world_size, rank));
    scratch.transfers[rank].receive = std::as_writable_bytes(nodes[rank]);
  }
  if (auto moved = exchange.run(stage, scratch.transfers); !moved) return moved;
  sum_rank_nodes(nodes, self);
  return {};
}

CommResult<void> gather_chunks(Exchange& exchange, const Stage& stage, std::span<float> piece,
                               Scratch& scratch) {
  const std::uint32_t world_size = exchange.world_size();
  const auto own = chunk_of(piece, world_size, exchange.self().value);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    scratch.transfers[rank].send = std::as_bytes(own);
    scratch.transfers[rank].receive = std::as_writable_bytes(chunk_of(piece, world_size, rank));
  }
  return exchange.run(stage, scratch.transfers);
}

}  // namespace

CommResult<void> all_reduce(Exchange& exchange, Stage stage, std::span<float> buffer,
                            Scratch& scratch) {
  scratch.transfers.assign(exchange.world_size(), {});
  // An empty buffer still is one exchange: all ranks meet in every operation.
  std::size_t first = 0;
  do {
    const auto piece = buffer.subspan(first, std::min(kPieceValues, buffer.size() - first));
    stage.last = false;
    auto reduced = reduce_own_chunk(exchange, stage, piece, scratch);
    if (!reduced) return reduced;
    ++stage.phase;
    stage.last = first + piece.size() == buffer.size();
    auto gathered = gather_chunks(exchange, stage, piece, scratch);
    if (!gathered) return gathered;
    ++stage.phase;
    first += piece.size();
  } while (first < buffer.size());
  return {};
}

CommResult<Scalars> all_reduce_scalars(Exchange& exchange, Stage stage, const Scalars& mine,
                                       Scratch& scratch) {
  const std::uint32_t world_size = exchange.world_size();
  const std::size_t count = mine.sums.size();
  const std::size_t size = (count + 2) * sizeof(std::uint64_t);
  scratch.messages.resize(size * world_size);
  const auto message_of = [&](std::uint32_t rank) {
    return std::span(scratch.messages).subspan(rank * size, size);
  };
  const auto own = message_of(exchange.self().value);
  put(own, 0, mine.any_flags);
  put(own, 8, mine.all_flags);
  std::ranges::copy(std::as_bytes(std::span(mine.sums)), own.subspan(16).begin());

  scratch.transfers.assign(world_size, {});
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    scratch.transfers[rank].send = own;
    scratch.transfers[rank].receive = message_of(rank);
  }
  if (auto moved = exchange.run(stage, scratch.transfers); !moved) {
    return tl::unexpected(moved.error());
  }

  Scalars total;
  std::vector<double> values(count * world_size);
  std::vector<std::span<double>> nodes(world_size);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const auto message = message_of(rank);
    total.any_flags |= get<std::uint64_t>(message, 0);
    total.all_flags &= get<std::uint64_t>(message, 8);
    nodes[rank] = std::span(values).subspan(rank * count, count);
    std::ranges::copy(message.subspan(16), std::as_writable_bytes(nodes[rank]).begin());
  }
  sum_rank_nodes(nodes, 0);
  total.sums.assign(nodes[0].begin(), nodes[0].end());
  return total;
}

CommResult<void> broadcast(Exchange& exchange, Stage stage, Rank root, std::span<std::byte> bytes,
                           Scratch& scratch) {
  scratch.transfers.assign(exchange.world_size(), {});
  if (exchange.self() == root) {
    for (Transfer& transfer : scratch.transfers) transfer.send = bytes;
  } else {
    scratch.transfers[root.value].receive = bytes;
  }
  return exchange.run(stage, scratch.transfers);
}

CommResult<void> barrier(Exchange& exchange, Stage stage, Scratch& scratch) {
  const Transfer nothing{std::span<const std::byte>(), std::span<std::byte>()};
  scratch.transfers.assign(exchange.world_size(), nothing);
  return exchange.run(stage, scratch.transfers);
}

}  // namespace dlaunch::comm
