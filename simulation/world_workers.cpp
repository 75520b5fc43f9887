// The workers of all hosts, and the checkpoints that they write.
#include <functional>
#include <string>
#include <utility>

#include "base/overloaded.h"
#include "simulation/world.h"

namespace dlaunch::simulation {

namespace control = launcher::controller;
namespace job = supervisor::job;

namespace {

std::uint64_t fingerprint_of(const protocol::EndpointList& list) {
  std::uint64_t mixed = list.ranks.size();
  for (const auto& rank : list.ranks) {
    mixed = (mixed ^ std::hash<std::string>{}(rank.address)) * 0x9E3779B97F4A7C15ULL + rank.port;
  }
  return mixed;
}

}  // namespace

Gang& World::worker_started(HostId host, Rank rank, Generation generation) {
  safety_.worker_started(host, rank, generation, hosts_.at(host)->newest_seen());
  const auto [known, first] = crews_.try_emplace(generation);
  auto& crew = known->second;
  if (first) forget_lists();
  if (rank.value >= crew.places.size()) crew.places.resize(rank.value + 1);
  crew.places[rank.value] = hosts_.at(host).get();
  if (crew.gang) return *crew.gang;
  const auto best = station().machine().job().step.value_or(Step{});
  Gang::Hands hands;
  hands.say = [this, generation, &crew](Rank of, Deed deed, const Progress& progress) {
    auto* place = crew.places[of.value];
    if (place == nullptr) return;
    place->worker_says(of, generation, deed, progress, scenario_.training.step_time);
  };
  hands.quiet = [this, generation](Instant until) {
    if (generation != station().generation() || scenario_.single_beats) return;
    station().ask(control::ForJob{job::StepsUntil{until}});
  };
  crew.gang = std::make_unique<Gang>(queue_, gang_dice_, scenario_.training, scenario_.single_beats,
                                     best.value, std::move(hands));
  return *crew.gang;
}

/// What a generation was told of which nobody lives: its fingerprint is enough for those who are
/// told the same later.
void World::forget_lists() {
  for (auto& [generation, crew] : crews_) {
    if (!crew.endpoints || !crew.gang || crew.gang->alive() > 0) continue;
    crew.fingerprint = fingerprint_of(*crew.endpoints);
    crew.endpoints.reset();
  }
}

void World::worker_ended(HostId, Rank rank, Generation generation) {
  crews_.at(generation).places.at(rank.value) = nullptr;
  safety_.worker_ended(rank, generation);
}

void World::worker_told(HostId host, const supervisor::host::TellWorker& order, Gang& gang) {
  namespace line = protocol::worker;
  const auto& [rank, generation, message, endpoints] = order;
  std::visit(Overloaded{[&](const line::Assign& assign) {
                          std::optional<std::uint64_t> step;
                          if (assign.restore) step = assign.restore->step.value;
                          const bool same = gang.assign(rank, assign.world_size, step);
                          safety_.assigned(host, rank, same && is_told_the_same(order));
                        },
                        [&](const line::Go&) {
                          safety_.go(generation, gang.is_complete());
                          gang.go(rank);
                        },
                        [&](const line::CheckpointAt&) { gang.request_checkpoint(); },
                        [&](const line::Stop&) { gang.request_stop(); }, [](const auto&) {}},
             message.body);
}

/// Of where all ranks of its generation listen.
bool World::is_told_the_same(const supervisor::host::TellWorker& order) {
  const auto& assign = std::get<protocol::worker::Assign>(order.message.body);
  auto& crew = crews_[order.generation];
  if (!order.endpoints || order.endpoints->ranks.size() != assign.world_size) return false;
  if (crew.fingerprint) return *crew.fingerprint == fingerprint_of(*order.endpoints);
  auto& first = crew.endpoints;
  if (!first) first = order.endpoints;
  return first == order.endpoints || first->ranks == order.endpoints->ranks;
}

void World::wrote(Generation generation, std::uint64_t step, const std::string& file) {
  storage_.write(generation.value, step, file);
}

std::string World::commit(HostId host, Generation generation, const protocol::Commit& order) {
  auto error = storage_.commit(generation.value, order);
  if (error.empty()) safety_.published(host, generation, order.step());
  return error;
}

}  // namespace dlaunch::simulation
