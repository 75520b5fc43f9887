// Which checkpoints are complete, which are being written, which may go.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::job {

/// Collects what ranks report as written until a checkpoint of the present generation is whole.
class Checkpoints {
 public:
  explicit Checkpoints(std::uint32_t keep) : keep_(keep) {}

  /// What the directory holds; what is known to be damaged does not count.
  void found(const std::vector<Step>& steps);
  /// Not to be restored from, until the step is written and committed again. True: this is news.
  bool damaged(Step step);
  /// Partial ones of older generations are nothing any more.
  void begin_generation(std::uint32_t world_size);
  /// The order to commit, once the last rank has written: files by rank, and what may be deleted
  /// after the rename so that `keep` are left. Never the newest. A rank may say it again.
  [[nodiscard]] std::optional<protocol::Commit> written(const protocol::Written& written);
  void committed(Step step);
  /// A commit that was not heard of before; agents repeat what they told another connection.
  [[nodiscard]] bool is_news(Step step) const;
  /// A generation goes on that has committed that much and waits for these.
  void adopt(std::optional<Step> committed, const std::vector<protocol::Commit>& committing);
  /// It could not be renamed; a later one may.
  void failed(Step step) { committing_.erase(step); }
  /// Nobody answers the orders to commit.
  void give_up() { committing_.clear(); }

  [[nodiscard]] std::optional<Step> newest() const;
  [[nodiscard]] std::vector<Step> steps() const { return {steps_.begin(), steps_.end()}; }
  [[nodiscard]] std::vector<Step> damaged_steps() const {
    return {damaged_.begin(), damaged_.end()};
  }
  [[nodiscard]] bool is_committing() const { return !committing_.empty(); }
  [[nodiscard]] bool is_committing(Step step) const { return committing_.contains(step); }
  /// What saving cost the newest time: the slowest rank's write.
  [[nodiscard]] nanoseconds save_cost() const { return save_cost_; }
  void restore_cost(nanoseconds cost) { save_cost_ = cost; }

 private:
  std::uint32_t keep_;
  std::uint32_t world_size_ = 0;
  std::set<Step> steps_;
  std::set<Step> damaged_;
  std::map<Step, std::vector<Step>> committing_;  ///< and what is deleted with it
  std::optional<Step> committed_;                 ///< the newest of this generation
  std::map<Step, std::map<Rank, protocol::Written>> partial_;
  nanoseconds save_cost_{};
};

/// Micro-batches of a step when the user does not say: 8, or the next power of two that gives each
/// rank one.
[[nodiscard]] std::uint32_t default_logical_batches(std::uint64_t ranks);
/// Those that a checkpoint's `config` was trained with; nullopt: it does not say.
[[nodiscard]] std::optional<std::uint32_t> logical_batches_of(const std::string& config);

/// The differences that make a checkpoint unfit for this job, as "model.layers is 4 here, 6 in the
/// checkpoint", empty when it fits. Both texts are JSON objects; `steps` and the like may differ.
[[nodiscard]] std::vector<std::string> judge_match(const std::string& settings,
                                                   const std::string& config);

}  // namespace dlaunch::supervisor::job
