// The collectives, written as exchanges: what each rank sends to whom, and what is added where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/io/exchange.h"
#include "trainer/comm/partition.h"

namespace dlaunch::comm {

/// A larger buffer is reduced in pieces of this size, which bounds the scratch memory.
constexpr std::size_t kPieceValues = 1u << 20;

/// Reused from operation to operation; never more than kPieceValues floats and a message per rank.
struct Scratch {
  std::vector<float> values;
  std::vector<std::byte> messages;
  std::vector<Transfer> transfers;
};

// All are among the ranks of `stage.group`.

/// Each rank owns one chunk: it gets the others' nodes of that chunk, adds all in tree order and
/// gives everybody the sum; two ranks just give each other all. Sends 2 (n - 1) / n of the buffer
/// per rank.
[[nodiscard]] CommResult<void> all_reduce(Exchange& exchange, Stage stage, std::span<float> buffer,
                                          Scratch& scratch);
/// Leaves the sum over the ranks of each value with its owner; the rest of the buffer is used up.
/// Sends (n - 1) / n of the buffer per rank where all own equally much.
[[nodiscard]] CommResult<void> reduce_scatter(Exchange& exchange, Stage stage,
                                              std::span<float> buffer, const Partition& partition,
                                              Scratch& scratch);
/// Gives everybody what each rank owns of its buffer.
[[nodiscard]] CommResult<void> all_gather(Exchange& exchange, Stage stage, std::span<float> buffer,
                                          const Partition& partition, Scratch& scratch);
/// Everybody sends its few numbers to everybody and adds in tree order: one trip.
[[nodiscard]] CommResult<Scalars> all_reduce_scalars(Exchange& exchange, Stage stage,
                                                     const Scalars& mine, Scratch& scratch);
[[nodiscard]] CommResult<void> broadcast(Exchange& exchange, Stage stage, Rank root,
                                         std::span<std::byte> bytes, Scratch& scratch);
/// send[r] goes to rank r, receive[r] comes from there.
[[nodiscard]] CommResult<void> all_to_all(Exchange& exchange, Stage stage, ManyBytes send,
                                          ManyRooms receive, Scratch& scratch);
/// One of both ranks sends, the other one receives.
[[nodiscard]] CommResult<void> send(Exchange& exchange, Stage stage, Rank to,
                                    std::span<const std::byte> bytes, Scratch& scratch);
[[nodiscard]] CommResult<void> receive(Exchange& exchange, Stage stage, Rank from,
                                       std::span<std::byte> bytes, Scratch& scratch);
[[nodiscard]] CommResult<void> barrier(Exchange& exchange, Stage stage, Scratch& scratch);

}  // namespace dlaunch::comm
