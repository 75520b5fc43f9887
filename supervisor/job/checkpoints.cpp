#include "supervisor/job/checkpoints.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "protocol/json_text.h"

namespace dlaunch::supervisor::job {
namespace {

using nlohmann::json;

/// What the weights after step N depend on. How many steps there are, and how often to save, may
/// change.
constexpr std::uint32_t kLogicalBatchesDefault = 8;
constexpr std::array kMatching = {
    "model",        "data",         "seed", "logical_batches", "micro_batch", "learning_rate",
    "warmup_steps", "weight_decay", "clip", "betas",           "schedule",    "min_learning_rate",
    "decay_steps",  "precision"};

/// What settings of before a key was there did.
const json& before_the_key() {
  static const json defaults = {{"model", {{"vocabulary", 256}}},
                                {"data", {{"validation", 0.0}}},
                                {"schedule", "constant"},
                                {"precision", "fp32"}};
  return defaults;
}

json with_defaults(const json& settings) {
  auto all = before_the_key();
  all.merge_patch(settings);
  return all;
}

void compare(const std::string& path, const json& here, const json& there,
             std::vector<std::string>& differences) {
  if (here.is_object() && there.is_object()) {
    for (const auto& [key, value] : here.items()) {
      if (there.contains(key)) compare(path + "." + key, value, there.at(key), differences);
    }
    return;
  }
  const bool same = here.is_number() && there.is_number()
                        ? std::abs(here.get<double>() - there.get<double>()) <=
                              1e-12 * std::abs(here.get<double>())
                        : here == there;
  if (!same)
    differences.push_back(path + " is " + here.dump() + " here, " + there.dump() +
                          " in the checkpoint");
}

}  // namespace

void Checkpoints::found(const std::vector<Step>& steps) {
  steps_ = {steps.begin(), steps.end()};
  for (const auto step : damaged_) steps_.erase(step);
}

bool Checkpoints::damaged(Step step) {
  steps_.erase(step);
  return damaged_.insert(step).second;
}

void Checkpoints::begin_generation(std::uint32_t world_size) {
  world_size_ = world_size;
  partial_.clear();
  committing_.clear();
  committed_.reset();
}

std::optional<protocol::Commit> Checkpoints::written(const protocol::Written& written) {
  const Step step{written.step()};
  const bool late = committed_ && step <= *committed_;  // told again after a reconnect
  if (late || steps_.contains(step) || committing_.contains(step)) return std::nullopt;
  auto& files = partial_[step];
  files[Rank{written.rank()}] = written;
  if (files.size() < world_size_) return std::nullopt;
  protocol::Commit commit;
  commit.set_step(step.value);
  commit.set_replaces_damaged(damaged_.contains(step));
  double seconds = 0;
  for (const auto& [rank, file] : files) {
    auto* entry = commit.add_files();
    entry->set_name(file.file());
    entry->set_bytes(file.bytes());
    entry->set_hash(file.hash());
    seconds = std::max(seconds, file.seconds());
  }
  save_cost_ = nanoseconds(std::llround(seconds * 1e9));
  auto& deleted = committing_[step];
  partial_.erase(step);
  auto left = steps_.size() + 1;
  for (auto old = steps_.begin(); old != steps_.end() && left > keep_; ++old, --left) {
    if (*old >= step) continue;
    commit.add_delete_steps(old->value);
    deleted.push_back(*old);
  }
  return commit;
}

bool Checkpoints::is_news(Step step) const {
  if (committing_.contains(step)) return true;
  // Those below the oldest have been deleted since.
  return !steps_.contains(step) && (steps_.empty() || step > *steps_.begin());
}

void Checkpoints::committed(Step step) {
  // Only what is really deleted is forgotten: of several commits at once each counts for itself.
  if (const auto known = committing_.find(step); known != committing_.end()) {
    for (const auto old : known->second) steps_.erase(old);
    committing_.erase(known);
  }
  damaged_.erase(step);
  committed_ = std::max(committed_, std::optional(step));
  steps_.insert(step);
}

void Checkpoints::adopt(std::optional<Step> committed,
                        const std::vector<protocol::Commit>& committing) {
  committed_ = committed;
  for (const auto& commit : committing) {
    auto& deleted = committing_[Step{commit.step()}];
    for (const auto old : commit.delete_steps()) deleted.push_back(Step{old});
  }
}

std::optional<Step> Checkpoints::newest() const {
  if (steps_.empty()) return std::nullopt;
  return *steps_.rbegin();
}

std::uint32_t default_logical_batches(std::uint64_t ranks) {
  std::uint32_t batches = kLogicalBatchesDefault;
  while (batches < ranks) batches *= 2;
  return batches;
}

std::optional<std::uint32_t> logical_batches_of(const std::string& config) {
  const auto there = protocol::read_json(config);
  if (!there.is_object()) return std::nullopt;
  const auto found = there.find("logical_batches");
  if (found == there.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint32_t>();
}

std::vector<std::string> judge_match(const std::string& settings, const std::string& config) {
  std::vector<std::string> differences;
  const auto here = protocol::read_json(settings);
  const auto there = protocol::read_json(config);
  if (!here.is_object() || !there.is_object()) return differences;
  const auto whole_here = with_defaults(here), whole_there = with_defaults(there);
  for (const auto* key : kMatching) {
    if (whole_here.contains(key) && whole_there.contains(key)) {
      compare(key, whole_here.at(key), whole_there.at(key), differences);
    }
  }
  return differences;
}

}  // namespace dlaunch::supervisor::job
