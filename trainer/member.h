// One worker's part in one generation: prepare, connect, restore, and be ready to train.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "trainer/checkpoint_saver.h"
#include "trainer/comm/io/mesh.h"
#include "trainer/comm/lanes.h"
#include "trainer/data/io/training_data.h"
#include "trainer/loop.h"
#include "trainer/model/model.h"

namespace dlaunch::trainer {

/// For the whole mesh to stand; the supervisor's start limit is shorter or does not matter then.
constexpr milliseconds kConnectLimit = 5min;

/// The hash of the data that this process has read: large files are not read again in each
/// generation.
struct KnownData {
  FileMarks marks;
  std::string hash;  ///< empty: nothing is known
};

/// Held by the worker from assignment to abort; leaves the mesh when destroyed.
class Member {
 public:
  using Trouble = std::variant<comm::CommFailure, Failed>;

  /// Reads settings and data, which costs nothing to get wrong; touches no network.
  /// `local_world_size`: ranks of this host.
  [[nodiscard]] static tl::expected<std::unique_ptr<Member>, Trouble> prepare(
      const Assigned& assigned, std::uint32_t local_world_size);

  [[nodiscard]] tl::expected<void, Trouble> connect(comm::MeshListener& listener,
                                                    std::shared_ptr<comm::AbortFlag> abort);
  /// Loads the step of the assignment, or makes the first values.
  [[nodiscard]] tl::expected<void, Trouble> restore(CheckpointSaver::Written written,
                                                    KnownData& known);
  [[nodiscard]] Outcome train(Mailbox& mailbox, Observer& observer);
  /// Instead of training, when a stop has come before the go: writes the checkpoint that the
  /// state does not have yet.
  [[nodiscard]] Outcome stop(bool with_checkpoint);

  [[nodiscard]] std::uint64_t step() const { return state_.step; }
  [[nodiscard]] const TrainerSettings& settings() const { return settings_; }
  [[nodiscard]] comm::Communicator& communicator() { return *communicator_; }
  /// Floating-point operations of the model on this rank.
  [[nodiscard]] double flops_per_step() const;
  /// What was restored was computed with something else than this rank has; empty: with the same.
  [[nodiscard]] const std::string& differs() const { return differs_; }
  /// Leaves its memory to the end of the process: giving it back would ask a device that is broken.
  void abandon_model();
  /// "rank 1 of 4: micro-batches 2 to 3 of 8, 1072384 parameters, 4404412 tokens (text),
  /// torch 2.11.0, AVX2"
  [[nodiscard]] std::string sentence() const;

 private:
  [[nodiscard]] tl::expected<void, Trouble> make_first_values();
  /// HSDP: the groups that this rank's collectives run in.
  [[nodiscard]] tl::expected<void, Trouble> form_copies();
  [[nodiscard]] comm::TreeNode micro_batches() const;
  [[nodiscard]] Result<void> check_ids() const;
  /// "torch 2.11.0, AVX2, AMD EPYC 7763 64-Core Processor, 1 thread": what its bits rest on.
  [[nodiscard]] std::string numerics() const;

  Member(const Assigned& assigned, TrainerSettings settings, TrainingData data,
         Placement placement);

  const Assigned assigned_;
  const TrainerSettings settings_;
  const TrainingData data_;
  Placement placement_;
  const DataOrder order_;
  TrainingState state_;
  std::string differs_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<comm::AbortFlag> abort_;
  std::unique_ptr<comm::Communicator> communicator_;
  CopyGroups groups_;  ///< HSDP
  std::unique_ptr<CheckpointSaver> saver_;
};

}  // namespace dlaunch::trainer
