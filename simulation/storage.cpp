#include "simulation/storage.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dlaunch::simulation {
namespace {
constexpr nanoseconds kWriteTime = 4ms;  // one commit with synchronous=FULL
constexpr nanoseconds kComplainEvery = 1s;
}  // namespace

std::string Storage::commit(std::uint64_t generation, const protocol::Commit& order) {
  if (out_) return kOut;
  const auto partial = partial_.find({generation, order.step()});
  if (partial == partial_.end()) {
    // The order came twice, or an older generation reached the same step.
    return steps_.contains(order.step()) ? "" : "nothing was written";
  }
  for (const auto& file : order.files()) {
    if (!partial->second.contains(file.name())) return "the file " + file.name() + " is missing";
  }
  steps_[order.step()] = static_cast<std::uint32_t>(order.files_size());
  for (const auto step : order.delete_steps()) steps_.erase(step);
  std::erase_if(partial_, [&](const auto& entry) {
    return entry.first.first < generation || entry.first.second <= order.step();
  });
  return "";
}

protocol::CheckpointsFound Storage::inspect() const {
  protocol::CheckpointsFound found;
  if (out_) {
    found.set_error(kOut);
    return found;
  }
  for (const auto& [step, world_size] : steps_) {
    auto* fact = found.add_checkpoints();
    fact->set_step(step);
    fact->set_world_size(world_size);
    fact->set_config("{}");
    fact->set_data("{}");
  }
  return found;
}

void RunDb::put(launcher::controller::JournalRow row, Answer answer) {
  const bool known = std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.row.ticket == row.ticket;
  });
  if (known) return;
  waiting_.push_back({std::move(row), std::move(answer)});
  queue_.after(kWriteTime, [this] { write_all(); });
}

void RunDb::write_all() {
  if (waiting_.empty()) return;
  if (full_) return complain();
  auto batch = std::exchange(waiting_, {});
  for (auto& entry : batch) {
    note(entry.row);
    rows_.push_back(std::move(entry.row));
    entry.answer(true);
  }
}

/// Of long rows only what is asked for: neither members nor files.
void RunDb::note(const launcher::controller::JournalRow& row) {
  using nlohmann::json;
  if (row.kind != "generation" && row.kind != "committing") return;
  const auto keep = [](int, json::parse_event_t event, json& key) {
    return event != json::parse_event_t::key || (key != "members" && key != "files");
  };
  const auto content = json::parse(row.json, keep, false);
  if (!content.is_object() || !content.contains("generation")) return;
  const Generation generation{content.value("generation", std::uint64_t{0})};
  if (row.kind == "generation") generations_.insert(generation);
  if (row.kind != "committing") return;
  const auto& commit = content.contains("commit") ? content["commit"] : content;
  commits_.insert({generation, Step{commit.value("step", std::uint64_t{0})}});
}

void RunDb::complain() {
  if (complaining_ || waiting_.empty()) return;
  complaining_ = true;
  waiting_.front().answer(false);
  queue_.after(kComplainEvery, [this] {
    complaining_ = false;
    write_all();
  });
}

void RunDb::set_full(bool full) {
  full_ = full;
  if (!full) queue_.after(kWriteTime, [this] { write_all(); });
}

}  // namespace dlaunch::simulation
