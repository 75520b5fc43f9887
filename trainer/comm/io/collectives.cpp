#include "trainer/comm/io/collectives.h"

#include <algorithm>
#include <type_traits>

#include "trainer/comm/byte_order.h"
#include "trainer/comm/tree_sum.h"

namespace dlaunch::comm {
namespace {

/// Part of each rank's share of a buffer: [first, first + count) of the values that it owns.
struct Window {
  std::size_t first = 0;
  std::size_t count = 0;
};

template <class Byte>
Pieces<Byte> pieces_of(std::span<float> buffer, const std::vector<ValueRange>& ranges) {
  Pieces<Byte> pieces;
  for (const auto& range : ranges) {
    const auto values = buffer.subspan(range.first, range.count);
    if constexpr (std::is_const_v<Byte>) {
      pieces.add(std::as_bytes(values));
    } else {
      pieces.add(std::as_writable_bytes(values));
    }
  }
  return pieces;
}

Rank self_in(const Group& group) { return Rank{group.self}; }

/// Of two ranks each adds what the other has while it comes: the tree has one addition, whose bits
/// do not depend on who stands left.
CommResult<void> reduce_pair(Exchange& exchange, const Stage& stage, std::span<float> buffer,
                             const Partition& partition, Scratch& scratch) {
  const Rank self = self_in(exchange.group_of(stage));
  const Rank other{1 - self.value};
  Transfer& transfer = scratch.transfers[other.value];
  transfer.send =
      pieces_of<const std::byte>(buffer, partition.window(other, 0, partition.largest()));
  transfer.receive = pieces_of<std::byte>(buffer, partition.window(self, 0, partition.largest()));
  transfer.adds = true;
  return exchange.run(stage, scratch.transfers);
}

CommResult<void> all_reduce_pair(Exchange& exchange, const Stage& stage, std::span<float> buffer,
                                 Scratch& scratch) {
  Transfer& transfer = scratch.transfers[1 - exchange.group_of(stage).self];
  transfer.send = std::as_bytes(buffer);
  transfer.receive = std::as_writable_bytes(buffer);
  transfer.adds = true;
  transfer.in_place = true;
  return exchange.run(stage, scratch.transfers);
}

/// This rank's window of the sum over all ranks, in place.
CommResult<void> reduce_window(Exchange& exchange, const Stage& stage, std::span<float> buffer,
                               const Partition& partition, Window window, Scratch& scratch) {
  const Group& group = exchange.group_of(stage);
  const std::uint32_t world_size = group.size();
  const std::uint32_t self = group.self;
  const auto mine = partition.window(self_in(group), window.first, window.count);
  std::size_t own = 0;
  for (const auto& range : mine) own += range.count;
  scratch.values.resize(std::max(scratch.values.size(), own * (world_size - 1)));
  std::vector<std::span<float>> received(world_size);
  std::size_t used = 0;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    if (rank == self) continue;
    received[rank] = std::span(scratch.values).subspan(used, own);
    used += own;
    scratch.transfers[rank].send = pieces_of<const std::byte>(
        buffer, partition.window(Rank{rank}, window.first, window.count));
    scratch.transfers[rank].receive = std::as_writable_bytes(received[rank]);
  }
  if (auto moved = exchange.run(stage, scratch.transfers); !moved) return moved;
  std::vector<std::span<float>> nodes(world_size);
  std::size_t first = 0;
  for (const auto& range : mine) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      nodes[rank] = rank == self ? buffer.subspan(range.first, range.count)
                                 : received[rank].subspan(first, range.count);
    }
    sum_rank_nodes(nodes, self);
    first += range.count;
  }
  return {};
}

CommResult<void> gather_window(Exchange& exchange, const Stage& stage, std::span<float> buffer,
                               const Partition& partition, Window window, Scratch& scratch) {
  const Group& group = exchange.group_of(stage);
  const auto mine = pieces_of<const std::byte>(
      buffer, partition.window(self_in(group), window.first, window.count));
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    scratch.transfers[rank].send = mine;
    scratch.transfers[rank].receive =
        pieces_of<std::byte>(buffer, partition.window(Rank{rank}, window.first, window.count));
  }
  return exchange.run(stage, scratch.transfers);
}

/// Calls `work` for window after window, so that scratch memory stays bounded. Even a buffer of
/// nothing is one exchange: all ranks meet in every operation.
template <class Work>
CommResult<void> for_each_window(const Partition& partition, const Work& work) {
  const std::size_t step = std::max<std::size_t>(1, kPieceValues / partition.world_size());
  std::size_t first = 0;
  do {
    const bool last = first + step >= partition.largest();
    if (auto done = work(Window{first, step}, last); !done) return done;
    first += step;
  } while (first < partition.largest());
  return {};
}

}  // namespace

CommResult<void> all_reduce(Exchange& exchange, Stage stage, std::span<float> buffer,
                            Scratch& scratch) {
  const std::uint32_t world_size = exchange.group_of(stage).size();
  scratch.transfers.assign(world_size, {});
  if (world_size == 2) return all_reduce_pair(exchange, stage, buffer, scratch);
  const auto partition = Partition::even(buffer.size(), world_size);
  return for_each_window(partition, [&](Window window, bool last) {
    stage.last = false;
    auto done = reduce_window(exchange, stage, buffer, partition, window, scratch);
    ++stage.phase;
    if (!done) return done;
    stage.last = last;
    done = gather_window(exchange, stage, buffer, partition, window, scratch);
    ++stage.phase;
    return done;
  });
}

CommResult<void> reduce_scatter(Exchange& exchange, Stage stage, std::span<float> buffer,
                                const Partition& partition, Scratch& scratch) {
  const std::uint32_t world_size = exchange.group_of(stage).size();
  scratch.transfers.assign(world_size, {});
  if (world_size == 2) return reduce_pair(exchange, stage, buffer, partition, scratch);
  return for_each_window(partition, [&](Window window, bool last) {
    stage.last = last;
    auto done = reduce_window(exchange, stage, buffer, partition, window, scratch);
    ++stage.phase;
    return done;
  });
}

CommResult<void> all_gather(Exchange& exchange, Stage stage, std::span<float> buffer,
                            const Partition& partition, Scratch& scratch) {
  scratch.transfers.assign(exchange.group_of(stage).size(), {});
  return for_each_window(partition, [&](Window window, bool last) {
    stage.last = last;
    auto done = gather_window(exchange, stage, buffer, partition, window, scratch);
    ++stage.phase;
    return done;
  });
}

CommResult<Scalars> all_reduce_scalars(Exchange& exchange, Stage stage, const Scalars& mine,
                                       Scratch& scratch) {
  const Group& group = exchange.group_of(stage);
  const std::uint32_t world_size = group.size();
  const std::size_t count = mine.sums.size();
  const std::size_t size = (count + 2) * sizeof(std::uint64_t);
  scratch.messages.resize(size * world_size);
  const auto message_of = [&](std::uint32_t rank) {
    return std::span(scratch.messages).subspan(rank * size, size);
  };
  const auto own = message_of(group.self);
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
  scratch.transfers.assign(exchange.group_of(stage).size(), {});
  if (self_in(exchange.group_of(stage)) == root) {
    for (Transfer& transfer : scratch.transfers) transfer.send = bytes;
  } else {
    scratch.transfers[root.value].receive = bytes;
  }
  return exchange.run(stage, scratch.transfers);
}

CommResult<void> all_to_all(Exchange& exchange, Stage stage, ManyBytes send, ManyRooms receive,
                            Scratch& scratch) {
  const Group& group = exchange.group_of(stage);
  scratch.transfers.assign(group.size(), {});
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    scratch.transfers[rank].send = send[rank];
    scratch.transfers[rank].receive = receive[rank];
  }
  std::ranges::copy(send[group.self], receive[group.self].begin());
  return exchange.run(stage, scratch.transfers);
}

CommResult<void> send(Exchange& exchange, Stage stage, Rank to, std::span<const std::byte> bytes,
                      Scratch& scratch) {
  scratch.transfers.assign(exchange.group_of(stage).size(), {});
  scratch.transfers[to.value].send = bytes;
  return exchange.run(stage, scratch.transfers);
}

CommResult<void> receive(Exchange& exchange, Stage stage, Rank from, std::span<std::byte> bytes,
                         Scratch& scratch) {
  scratch.transfers.assign(exchange.group_of(stage).size(), {});
  scratch.transfers[from.value].receive = bytes;
  return exchange.run(stage, scratch.transfers);
}

CommResult<void> barrier(Exchange& exchange, Stage stage, Scratch& scratch) {
  const Transfer nothing{std::span<const std::byte>(), std::span<std::byte>()};
  scratch.transfers.assign(exchange.group_of(stage).size(), nothing);
  return exchange.run(stage, scratch.transfers);
}

}  // namespace dlaunch::comm
