// What the trainer knows of communication: ordered collectives of one generation's ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/failure.h"
#include "trainer/comm/partition.h"
#include "trainer/comm/recorder.h"

namespace dlaunch::comm {

/// Names one started operation; tickets rise with each operation of a mesh.
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

/// One place per rank.
using ManyBytes = std::span<const std::span<const std::byte>>;
using ManyRooms = std::span<const std::span<std::byte>>;

/// Collectives among the ranks of one generation, or of a part of them, in the order in which they
/// are called: every rank must call the same ones in the same order, over all groups of its mesh.
/// One thread calls; `bytes_sent`, `collective_seconds`, `collective_state` and `failure` may be
/// read by any. Results are the same bits on every rank.
/// Each wait ends at the abort, at a peer's death or at the limit of the operation; after any
/// failure all groups of the mesh are dead for good and each call repeats the first failure at
/// once.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Within this group.
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual std::uint32_t world_size() const = 0;

  /// The group of this rank: those to which `colour_of` gives the same number, in their order.
  /// Every rank of the mesh must make the same splits in the same order. Nothing is sent, the
  /// connections are those of the mesh; once this mesh's first communicator is gone, the others
  /// have failed.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(
      const std::string& name, const std::function<std::uint32_t(Rank)>& colour_of) = 0;

  /// Replaces `buffer` on every rank by the sum over the ranks in the order of the lane tree
  /// (lanes.h): right if each rank holds the sum of its own node. Runs on the communicator's
  /// thread; the buffer must stay and not be touched until `wait`.
  [[nodiscard]] virtual CommResult<Ticket> start_all_reduce(std::span<float> buffer) = 0;
  /// Replaces each value by the sum over the ranks on the rank that owns it, in the same order as
  /// `start_all_reduce`; the other values of the buffer are used up. Buffer and partition, which is
  /// the same on every rank, must stay until `wait`.
  [[nodiscard]] virtual CommResult<Ticket> start_reduce_scatter(std::span<float> buffer,
                                                                const Partition& partition) = 0;
  /// Gives every rank what each rank owns of its buffer; what nobody owns is left alone.
  [[nodiscard]] virtual CommResult<Ticket> start_all_gather(std::span<float> buffer,
                                                            const Partition& partition) = 0;
  /// Returns when the operation, and all before it, are done.
  [[nodiscard]] virtual CommResult<void> wait(Ticket ticket) = 0;

  // The same at once, and all others: on the caller's thread where nothing else is under way.
  [[nodiscard]] virtual CommResult<void> all_reduce(std::span<float> buffer) = 0;
  [[nodiscard]] virtual CommResult<void> reduce_scatter(std::span<float> buffer,
                                                        const Partition& partition) = 0;
  [[nodiscard]] virtual CommResult<void> all_gather(std::span<float> buffer,
                                                    const Partition& partition) = 0;
  [[nodiscard]] virtual CommResult<Scalars> all_reduce_scalars(const Scalars& mine) = 0;
  /// Every rank gives a span of the same size; afterwards all hold the root's bytes.
  [[nodiscard]] virtual CommResult<void> broadcast(Rank root, std::span<std::byte> bytes) = 0;
  [[nodiscard]] virtual CommResult<void> barrier() = 0;
  /// send[r] goes to rank r, what comes from it ends in receive[r], which has the size that it
  /// sends. Sizes may differ from pair to pair.
  [[nodiscard]] virtual CommResult<void> all_to_all(ManyBytes send, ManyRooms receive) = 0;

  /// To one other rank, which receives as many bytes. Counted apart from the collectives, so only
  /// the two take part. A large one waits for the receiver: two that send to each other at the same
  /// time use `all_to_all`.
  [[nodiscard]] virtual CommResult<void> send(Rank to, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual CommResult<void> receive(Rank from, std::span<std::byte> bytes) = 0;

  // Of the mesh, the same in all its groups; suspects are ranks of the mesh.

  /// Bytes handed to other ranks since the mesh was connected, headers included.
  [[nodiscard]] virtual std::uint64_t bytes_sent() const = 0;
  /// Time in which collectives were under way since then, those that are done: `bytes_sent` by it
  /// is the bandwidth.
  [[nodiscard]] virtual double collective_seconds() const = 0;
  [[nodiscard]] virtual CollectiveState collective_state() const = 0;
  /// Some rank's connection has ended, and no operation has met that yet: the next one will, and
  /// says who. A rank that is done with everything goes like that, too. For waits outside of the
  /// mesh; false while one of its own operations is under way.
  [[nodiscard]] virtual bool somebody_has_left() const = 0;
  /// Empty while alive.
  [[nodiscard]] virtual std::optional<CommFailure> failure() const = 0;
  /// For the log: "of 3 other ranks 1 is reached through shared memory"; why not, where not.
  [[nodiscard]] virtual std::string links_sentence() const = 0;
};

}  // namespace dlaunch::comm
