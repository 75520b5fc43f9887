// The checkpoint directory that all simulated hosts see, and run.db of the login host.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/controller/run_record.h"
#include "protocol/agent_wire.pb.h"
#include "simulation/event_queue.h"

namespace dlaunch::simulation {

/// Complete checkpoints, and the files of those that are being written. Like the real hands it has
/// no fence of its own: that only the newest generation publishes is the machines' duty.
class Storage {
 public:
  void write(std::uint64_t generation, std::uint64_t step, const std::string& file) {
    partial_[{generation, step}].insert(file);
  }
  /// The rename; an error sentence when files are missing, or nothing can be reached.
  [[nodiscard]] std::string commit(std::uint64_t generation, const protocol::Commit& order);
  [[nodiscard]] protocol::CheckpointsFound inspect() const;
  [[nodiscard]] std::uint64_t newest_step() const {
    return steps_.empty() ? 0 : steps_.rbegin()->first;
  }
  void set_out(bool out) { out_ = out; }
  [[nodiscard]] bool is_out() const { return out_; }

  static constexpr const char* kOut = "Input/output error";

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::string>> partial_;
  std::map<std::uint64_t, std::uint32_t> steps_;  ///< step → world size
  bool out_ = false;
};

/// The journal as it is on the login host's disk: what a restarted controller reads.
class RunDb {
 public:
  using Answer = std::function<void(bool written)>;

  explicit RunDb(EventQueue& queue) : queue_(queue) {}

  /// A full disk answers `false` at once and each second, `true` once the row is there.
  void put(launcher::controller::JournalRow row, Answer answer);
  void set_full(bool full);
  [[nodiscard]] bool is_full() const { return full_; }
  [[nodiscard]] const std::vector<launcher::controller::JournalRow>& rows() const { return rows_; }
  /// The generation, or its commit of this step, was decided on disk.
  [[nodiscard]] bool holds(Generation generation) const {
    return generations_.contains(generation);
  }
  [[nodiscard]] bool holds(Generation generation, Step commit) const {
    return commits_.contains({generation, commit});
  }
  /// The process that wrote is gone, and with it what it had not written.
  void forget_waiting() { waiting_.clear(); }

 private:
  struct Waiting {
    launcher::controller::JournalRow row;
    Answer answer;
  };
  void write_all();
  void note(const launcher::controller::JournalRow& row);
  void complain();

  EventQueue& queue_;
  bool full_ = false;
  bool complaining_ = false;
  std::vector<launcher::controller::JournalRow> rows_;
  std::set<Generation> generations_;
  std::set<std::pair<Generation, Step>> commits_;
  std::deque<Waiting> waiting_;
};

}  // namespace dlaunch::simulation
