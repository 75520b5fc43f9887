#include "trainer/parallel/fully_sharded.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "trainer/io/clock.h"
#include "trainer/parallel/sharding.h"

namespace dlaunch::trainer {
namespace {

bool contains(std::span<const std::size_t> units, std::size_t unit) {
  return std::ranges::find(units, unit) != units.end();
}

}  // namespace

FullySharded::FullySharded(EngineHands hands, const Sharing& sharing, const ParameterLayout& shard,
                           std::span<const float> share, const ReservedArray& values,
                           std::span<const ReservedArray> gradients, bool prefetch)
    : hands_(std::move(hands)),
      sharing_(sharing),
      shard_(shard),
      share_(share),
      values_(values),
      slots_(gradients),
      prefetch_(prefetch),
      rounds_(comm::rounds_for(hands_.logical_batches, hands_.communicator.world_size())),
      gradients_(shard.count) {
  DL_CHECK(slots_.size() == kSlots, "each slot has its gradient");
  DL_CHECK(copy().world_size() == sharing_.shard_size, "a copy is shared by its group");
  DL_CHECK((hands_.copies == nullptr ? 1 : hands_.copies->world_size()) == sharing_.copies(),
           "all copies are met");
  const auto& units = hands_.layout.units;
  for (std::size_t i = 0; i < units.size(); ++i) {
    units_.push_back({partition_of(hands_.layout, units[i], sharing_),
                      comm::TreeFold(shard.units[i].count),
                      false,
                      {},
                      {},
                      {}});
    std::vector<std::size_t> reads = {i};
    if (units[i].borrows) reads.push_back(*units[i].borrows);
    visits_.push_back({i, false, std::move(reads)});
  }
  for (std::size_t i = units.size(); i-- > 0;) {
    auto reads = visits_[i].reads;
    if (!units[i].reads_in_backward) std::erase(reads, i);
    visits_.push_back({i, true, std::move(reads)});
  }
}

FullySharded::~FullySharded() {
  for (const auto& unit : units_) {
    for (const auto& ticket : {unit.gathering, unit.reducing}) {
      if (ticket) static_cast<void>(copy().wait(*ticket));
    }
    if (unit.replicating) static_cast<void>(hands_.copies->wait(*unit.replicating));
  }
}

EngineResult<void> FullySharded::compute(ExactSum& losses) {
  waited_ = nanoseconds{0};
  for (auto& unit : units_) unit.rounds.reset();
  for (std::uint32_t round = 0; round < rounds_; ++round) {
    if (auto done = run_round(round, losses); !done) return done;
  }
  return {};
}

EngineResult<void> FullySharded::run_round(std::uint32_t round, ExactSum& losses) {
  mine_ = comm::micro_batches_of_round(hands_.logical_batches, hands_.communicator.world_size(),
                                       round, hands_.communicator.rank());
  DL_CHECK(mine_.count <= kSlots, "a rank has one or two lanes");
  batches_.clear();
  for (std::uint32_t slot = 0; slot < mine_.count; ++slot) {
    batches_.push_back(hands_.batch(slot, mine_.first + slot));
  }
  for (std::size_t i = 0; i < visits_.size(); ++i) {
    const auto& visit = visits_[i];
    const bool last = i + 1 == visits_.size();
    const std::vector<std::size_t> none;
    const auto& next = last ? none : visits_[i + 1].reads;
    if (auto done = prepare(visit, next); !done) return done;
    if (auto done = run(visit, losses); !done) return done;
    drop_all_but(next);
  }
  if (auto done = finish_reducing(); !done) return done;
  return finish_replicating();
}

EngineResult<void> FullySharded::prepare(const Visit& visit, const std::vector<std::size_t>& next) {
  if (auto done = gather(visit.reads); !done) return done;
  if (prefetch_) {
    if (auto done = gather(next); !done) return done;
  }
  return await_gathered(visit.reads);
}

EngineResult<void> FullySharded::validate(std::uint32_t micro_batches, ExactSum& losses) {
  const auto ranks = hands_.communicator.world_size();
  const auto rank = hands_.communicator.rank().value;
  constexpr auto kAtOnce = static_cast<std::uint32_t>(kSlots);
  for (std::uint32_t first = 0; first < micro_batches; first += ranks * kAtOnce) {
    batches_.clear();
    for (std::uint32_t slot = 0; slot < kAtOnce; ++slot) {
      const auto mine = first + slot * ranks + rank;
      if (mine < micro_batches) batches_.push_back(hands_.validation_batch(slot, mine));
    }
    if (auto done = evaluate_batches(losses); !done) return done;
  }
  return {};
}

EngineResult<void> FullySharded::evaluate_batches(ExactSum& losses) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const std::vector<std::size_t> none;
    const auto& next = unit + 1 < units_.size() ? visits_[unit + 1].reads : none;
    if (auto done = prepare(visits_[unit], next); !done) return done;
    for (std::size_t slot = 0; slot < batches_.size(); ++slot) {
      if (hands_.abort.is_set()) return tl::unexpected<EngineTrouble>(Aborted{});
      const auto done = hands_.model.evaluate_unit(unit, slot, batches_[slot]);
      if (!done) return tl::unexpected<EngineTrouble>(done.error());
    }
    drop_all_but(next);
  }
  for (std::size_t slot = 0; slot < batches_.size(); ++slot) {
    const auto loss = hands_.model.loss(slot);
    if (!loss) return tl::unexpected<EngineTrouble>(loss.error());
    losses.add(*loss);
  }
  return {};
}

EngineResult<void> FullySharded::run(const Visit& visit, ExactSum& losses) {
  hands_.entered(visit.backward ? "backward" : "forward");
  for (std::uint32_t slot = 0; slot < mine_.count; ++slot) {
    if (hands_.abort.is_set()) return tl::unexpected<EngineTrouble>(Aborted{});
    const auto done = visit.backward
                          ? hands_.model.backward_unit(visit.unit, slot, slots_[slot].values(),
                                                       [](std::size_t) {})
                          : hands_.model.forward_unit(visit.unit, slot, batches_[slot]);
    if (!done) return tl::unexpected<EngineTrouble>(done.error());
    if (visit.backward || visit.unit + 1 < units_.size()) continue;
    const auto loss = hands_.model.loss(slot);
    if (!loss) return tl::unexpected<EngineTrouble>(loss.error());
    losses.add(*loss);
  }
  if (visit.backward) return start_reducing(visit.unit);
  return {};
}

EngineResult<void> FullySharded::gather(std::span<const std::size_t> units) {
  for (const auto unit : units) {
    auto& shared = units_[unit];
    if (shared.present) continue;
    const auto whole = part(values_, unit);
    auto mine = share_.subspan(shard_.units[unit].first);
    for (const auto& range : shared.partition.of(copy().rank())) {
      std::ranges::copy(mine.first(range.count), whole.subspan(range.first).begin());
      mine = mine.subspan(range.count);
    }
    const auto ticket = copy().start_all_gather(whole, shared.partition);
    if (!ticket) return tl::unexpected<EngineTrouble>(ticket.error());
    shared.gathering = *ticket;
    shared.present = true;
    gathered_.now += whole.size_bytes();
    gathered_.peak = std::max(gathered_.peak, gathered_.now);
  }
  return {};
}

EngineResult<void> FullySharded::await_gathered(std::span<const std::size_t> units) {
  for (const auto unit : units) {
    auto& ticket = units_[unit].gathering;
    if (!ticket) continue;
    if (auto done = wait(copy(), *std::exchange(ticket, std::nullopt)); !done) return done;
    hands_.model.values_changed(unit);
  }
  return {};
}

void FullySharded::drop_all_but(std::span<const std::size_t> units) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    auto& shared = units_[unit];
    if (!shared.present || shared.gathering || contains(units, unit)) continue;
    shared.present = false;
    hands_.model.values_gone(unit);
    release(values_, unit);
    gathered_.now -= part(values_, unit).size_bytes();
  }
}

EngineResult<void> FullySharded::start_reducing(std::size_t unit) {
  // One at a time: the transfer runs beside the backward pass of the unit before it.
  if (auto done = finish_reducing(); !done) return done;
  const auto gradient = part(slots_[0], unit);
  if (mine_.count == 2) {
    const auto second = part(slots_[1], unit);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += second[i];
    release(slots_[1], unit);
  }
  auto& shared = units_[unit];
  const auto ticket = copy().start_reduce_scatter(gradient, shared.partition);
  if (!ticket) return tl::unexpected<EngineTrouble>(ticket.error());
  shared.reducing = *ticket;
  reducing_ = unit;
  return {};
}

EngineResult<void> FullySharded::finish_reducing() {
  if (!reducing_) return {};
  const auto unit = *std::exchange(reducing_, std::nullopt);
  auto& shared = units_[unit];
  if (auto done = wait(copy(), *std::exchange(shared.reducing, std::nullopt)); !done) return done;
  const auto gradient = part(slots_[0], unit);
  const auto mine = share_of_gradient(unit);
  std::size_t packed = 0;
  for (const auto& range : shared.partition.of(copy().rank())) {
    std::ranges::copy(gradient.subspan(range.first, range.count), mine.subspan(packed).begin());
    packed += range.count;
  }
  release(slots_[0], unit);
  if (hands_.copies == nullptr) {
    fold(unit);
    return {};
  }
  if (auto done = finish_replicating(); !done) return done;
  const auto ticket = hands_.copies->start_all_reduce(mine);
  if (!ticket) return tl::unexpected<EngineTrouble>(ticket.error());
  shared.replicating = *ticket;
  replicating_ = unit;
  return {};
}

EngineResult<void> FullySharded::finish_replicating() {
  if (!replicating_) return {};
  const auto unit = *std::exchange(replicating_, std::nullopt);
  auto& ticket = units_[unit].replicating;
  if (auto done = wait(*hands_.copies, *std::exchange(ticket, std::nullopt)); !done) return done;
  fold(unit);
  return {};
}

void FullySharded::fold(std::size_t unit) {
  auto& rounds = units_[unit].rounds;
  const auto mine = share_of_gradient(unit);
  if (rounds.leaves() + 1 < rounds_) {
    rounds.add(mine);
  } else {
    rounds.finish(mine);
  }
}

std::span<float> FullySharded::share_of_gradient(std::size_t unit) {
  return gradients().subspan(shard_.units[unit].first, shard_.units[unit].count);
}

EngineResult<void> FullySharded::wait(comm::Communicator& among, comm::Ticket ticket) {
  const auto begun = trainer_now();
  const auto done = among.wait(ticket);
  waited_ += trainer_now() - begun;
  if (!done) return tl::unexpected<EngineTrouble>(done.error());
  return {};
}

std::span<float> FullySharded::part(const ReservedArray& array, std::size_t unit) const {
  const auto& place = hands_.layout.units[unit];
  return array.values().subspan(place.first, place.count);
}

void FullySharded::release(const ReservedArray& array, std::size_t unit) const {
  array.release(hands_.layout.units[unit].first, hands_.layout.units[unit].count);
}

}  // namespace dlaunch::trainer
