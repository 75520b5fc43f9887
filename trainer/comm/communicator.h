// What the trainer knows of communication: ordered collectives of one generation's ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/failure.h"
#include "trainer/comm/partition.h"
#include "trainer/comm/recorder.h"

namespace dlaunch::comm {

/// Names one started operation; tickets rise by one with each operation of a communicator.
struct Ticket {
  std::uint64_t sequence = 0;
};

/// A step's small numbers, all in one message; every rank must give equally many sums.
struct Scalars {
  std::vector<double> sums;                     ///< added in tree order over the ranks
  std::uint64_t any_flags = 0;                  ///< bitwise OR: somebody wants it
  std::uint64_t all_flags = ~std::uint64_t{0};  ///< bitwise AND: everybody agrees
};
/// More would be a buffer for `all_reduce`.
constexpr std::size_t kScalarSumsMax = 256;
/// Operations started and not finished; a step has as many as buckets, far below this.
constexpr std::size_t kOperationsPendingMax = 4096;

/// Collectives among the ranks of one generation, in the order in which they are called: every
/// rank must call the same ones in the same order. One thread calls; `collective_state`,
/// `bytes_sent` and `failure` may be read by any. Results are the same bits on every rank.
/// Each wait ends at the abort, at a peer's death or at the limit of the operation; after any
/// failure the communicator is dead for good and each call repeats the first failure at once.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual std::uint32_t world_size() const = 0;

  /// Replaces `buffer` on every rank by the sum over the ranks in the order of the lane tree
  /// (lanes.h): right if each rank holds the sum of its own node. Runs on the communicator's
  /// thread; the buffer must stay and not be touched until `wait`.
  [[nodiscard]] virtual CommResult<Ticket> start_all_reduce(std::span<float> buffer) = 0;
  /// Returns when the operation, and all before it, are done.
  [[nodiscard]] virtual CommResult<void> wait(Ticket ticket) = 0;
  [[nodiscard]] CommResult<void> all_reduce(std::span<float> buffer) {
    return start_all_reduce(buffer).and_then([this](Ticket ticket) { return wait(ticket); });
  }

  /// Replaces each value by the sum over the ranks on the rank that owns it, in the same order as
  /// `start_all_reduce`; the other values of the buffer are used up. Buffer and partition, which is
  /// the same on every rank, must stay until `wait`.
  [[nodiscard]] virtual CommResult<Ticket> start_reduce_scatter(std::span<float> buffer,
                                                                const Partition& partition) = 0;
  /// Gives every rank what each rank owns of its buffer; what nobody owns is left alone.
  [[nodiscard]] virtual CommResult<Ticket> start_all_gather(std::span<float> buffer,
                                                            const Partition& partition) = 0;

  [[nodiscard]] CommResult<void> reduce_scatter(std::span<float> buffer,
                                                const Partition& partition) {
    return start_reduce_scatter(buffer, partition).and_then([this](Ticket ticket) {
      return wait(ticket);
    });
  }
  [[nodiscard]] CommResult<void> all_gather(std::span<float> buffer, const Partition& partition) {
    return start_all_gather(buffer, partition).and_then([this](Ticket ticket) {
      return wait(ticket);
    });
  }

  [[nodiscard]] virtual CommResult<Scalars> all_reduce_scalars(const Scalars& mine) = 0;
  /// Every rank gives a span of the same size; afterwards all hold the root's bytes.
  [[nodiscard]] virtual CommResult<void> broadcast(Rank root, std::span<std::byte> bytes) = 0;
  [[nodiscard]] virtual CommResult<void> barrier() = 0;

  /// Bytes handed to the network since the mesh was connected, headers included.
  [[nodiscard]] virtual std::uint64_t bytes_sent() const = 0;
  /// Time in which collectives were under way since then, those that are done: `bytes_sent` by it
  /// is the bandwidth.
  [[nodiscard]] virtual double collective_seconds() const = 0;
  [[nodiscard]] virtual CollectiveState collective_state() const = 0;
  /// Empty while alive.
  [[nodiscard]] virtual std::optional<CommFailure> failure() const = 0;
};

}  // namespace dlaunch::comm
