// An operation that was called, as it waits for its turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/ids.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/partition.h"
#include "trainer/comm/recorder.h"

namespace dlaunch::comm {

struct AllReduce {
  std::span<float> buffer;
};
struct ReduceScatter {
  std::span<float> buffer;
  const Partition* partition;
};
struct AllGather {
  std::span<float> buffer;
  const Partition* partition;
};
struct ReduceScalars {
  const Scalars* mine;
  Scalars* total;
};
struct Broadcast {
  Rank root;
  std::span<std::byte> bytes;
};
struct Barrier {};
struct AllToAll {
  ManyBytes send;
  ManyRooms receive;
};
struct SendMessage {
  Rank to;
  std::span<const std::byte> bytes;
};
struct ReceiveMessage {
  Rank from;
  std::span<std::byte> bytes;
};

/// Everything that is pointed at must stay until the operation is done.
using Work = std::variant<AllReduce, ReduceScatter, AllGather, ReduceScalars, Broadcast, Barrier,
                          AllToAll, SendMessage, ReceiveMessage>;

/// One that all ranks of the group take part in.
[[nodiscard]] bool is_collective(const Work& work);
[[nodiscard]] Operation operation_of(const Work& work);
/// Bytes of the whole operation, the same on every rank; 0 where ranks cannot know.
[[nodiscard]] std::uint64_t bytes_of(const Work& work);
/// Of all that must be equal on every rank beside operation and bytes: root, who owns what.
[[nodiscard]] std::uint64_t shape_of(const Work& work);

}  // namespace dlaunch::comm
