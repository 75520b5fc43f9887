// The workers of all hosts, and the checkpoints that they write.
#include <utility>

#include "base/overloaded.h"
#include "simulation/world.h"

namespace dlaunch::simulation {

namespace control = launcher::controller;
namespace job = supervisor::job;

Gang& World::worker_started(HostId host, Rank rank, Generation generation) {
  safety_.worker_started(host, rank, generation, hosts_.at(host)->newest_seen());
  places_[{generation, rank}] = host;
  auto& entry = gangs_[generation];
  if (entry) return *entry;
  const auto best = station().machine().job().step.value_or(Step{});
  Gang::Hands hands;
  hands.say = [this, generation](Rank of, Deed deed, const Progress& progress) {
    const auto found = places_.find({generation, of});
    if (found == places_.end()) return;
    hosts_.at(found->second)
        ->worker_says(of, generation, deed, progress, scenario_.training.step_time);
  };
  hands.quiet = [this, generation](Instant until) {
    if (generation != station().generation() || scenario_.single_beats) return;
    station().ask(control::ForJob{job::StepsUntil{until}});
  };
  entry = std::make_unique<Gang>(queue_, gang_dice_, scenario_.training, scenario_.single_beats,
                                 best.value, std::move(hands));
  return *entry;
}

void World::worker_ended(HostId, Rank rank, Generation generation) {
  places_.erase({generation, rank});
  safety_.worker_ended(rank, generation);
}

void World::worker_told(HostId host, Rank rank, Generation generation, Gang& gang,
                        const protocol::AgentMessage& message) {
  namespace line = protocol::worker;
  std::visit(Overloaded{[&](const line::Assign& assign) {
                          std::optional<std::uint64_t> step;
                          if (assign.restore) step = assign.restore->step.value;
                          const bool whole = assign.endpoints.size() == assign.world_size;
                          const bool same = gang.assign(rank, assign.world_size, step);
                          safety_.assigned(host, rank, whole && same);
                        },
                        [&](const line::Go&) {
                          safety_.go(generation, gang.is_complete());
                          gang.go(rank);
                        },
                        [&](const line::CheckpointAt&) { gang.request_checkpoint(); },
                        [&](const line::Stop&) { gang.request_stop(); }, [](const auto&) {}},
             message.body);
}

void World::wrote(Generation generation, std::uint64_t step, const std::string& file) {
  storage_.write(generation.value, step, file);
}

std::string World::commit(HostId host, Generation generation, const protocol::Commit& order) {
  auto error = storage_.commit(generation.value, order);
  if (error.empty()) safety_.published(host, generation, order.step());
  return error;
}

// ---- what is seen

}  // namespace dlaunch::simulation
