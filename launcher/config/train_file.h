// train.toml: what to run, and how it is kept running.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "launcher/config/problem.h"

namespace dlaunch::launcher::config {

struct JobSection {
  std::string name = "job";                    ///< default: the folder of train.toml
  std::uint32_t hosts_min = 0, hosts_max = 0;  ///< 0: all that are not spares
  nanoseconds start_timeout = 10min;
  std::uint32_t hosts_step = 1;
  std::string bind = "numa";

  friend bool operator==(const JobSection&, const JobSection&) = default;
};

struct ModelSection {
  std::uint32_t layers = 4, width = 128, heads = 4, context = 128, vocabulary = 256;

  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

struct TrainerSection {
  std::string strategy = "ddp";
  std::uint64_t steps = 2000;
  std::uint32_t logical_batches = 0;  ///< 0: 8, or the next power of two that fits
  std::uint32_t micro_batch = 8;
  double learning_rate = 3e-4;
  std::uint64_t seed = 1;
  std::uint64_t warmup_steps = 0;
  double weight_decay = 0.1;
  double clip = 1.0;
  std::array<double, 2> betas{0.9, 0.95};
  std::string precision = "fp32";
  std::string device = "cpu";
  bool activation_checkpointing = false;
  bool prefetch = true;
  bool check_collectives = false;
  std::uint32_t connections = 0;  ///< TCP, of ranks of different hosts; 0: by the world size
  std::uint32_t shard_size = 0;   ///< "hsdp": ranks that share a copy; 0: those of a host
  ModelSection model;
  std::string weights;                     ///< absolute path of first values; empty: random ones
  std::string text;                        ///< absolute path of the training text
  std::string tokens;                      ///< or of a file of token ids; exactly one is given
  double validation = 0;                   ///< share of the data; in thousandths
  std::uint64_t validate_every_steps = 0;  ///< 0: never
  std::string schedule = "constant";
  double min_learning_rate = 0;
  std::uint64_t decay_steps = 0;  ///< 0: `steps`

  friend bool operator==(const TrainerSection&, const TrainerSection&) = default;
};

struct ProgramSection {
  std::vector<std::string> command;
  std::string directory;  ///< absolute
  std::map<std::string, std::string> environment;
  std::vector<std::string> inherit;  ///< names, with * at the end for a beginning
  std::vector<std::string> wrap;
  std::string step_pattern;
  std::string checkpoint_glob;  ///< absolute

  friend bool operator==(const ProgramSection&, const ProgramSection&) = default;
};

struct EveryAuto {
  friend bool operator==(const EveryAuto&, const EveryAuto&) = default;
};
struct EverySteps {
  std::uint64_t steps = 0;

  friend bool operator==(const EverySteps&, const EverySteps&) = default;
};
struct EveryTime {
  nanoseconds interval{};

  friend bool operator==(const EveryTime&, const EveryTime&) = default;
};
using CheckpointEvery = std::variant<EveryAuto, EverySteps, EveryTime>;

struct CheckpointSection {
  std::string directory;  ///< absolute; default: "checkpoints" for [trainer]
  CheckpointEvery every = EveryAuto{};
  std::uint32_t keep = 3;
  bool memory = true;

  friend bool operator==(const CheckpointSection&, const CheckpointSection&) = default;
};

struct RecoverySection {
  bool spare_first = true;
  nanoseconds wait_for_host = 30min;
  std::uint32_t restarts = 10;
  nanoseconds restarts_window = 1h;
  std::uint32_t no_progress_generations = 3;
  nanoseconds stop_grace = 30s;
  std::optional<nanoseconds> lease;  ///< nullopt: auto
  bool stop_on_lease_end = true;
  bool quarantine = true;
  nanoseconds partition_grace = 30s;
  nanoseconds readmit = 5s;
  nanoseconds abort_deadline = 10s;

  friend bool operator==(const RecoverySection&, const RecoverySection&) = default;
};

/// What "auto" means for lost_after; and a host is not lost for want of fewer heartbeats.
constexpr nanoseconds kLostAfterTrainer = 600ms;
constexpr nanoseconds kLostAfterProgram = 5s;
constexpr int kHeartbeatsPerLostAfter = 5;

struct HealthSection {
  nanoseconds heartbeat = 100ms;
  std::optional<nanoseconds> lost_after;  ///< nullopt: auto
  std::optional<nanoseconds> hang_floor;  ///< nullopt: auto
  nanoseconds start_limit = 30min;
  nanoseconds checkpoint_limit = 30min;
  std::optional<nanoseconds> link_window;  ///< nullopt: auto

  friend bool operator==(const HealthSection&, const HealthSection&) = default;
};

struct TrainFile {
  JobSection job;
  std::optional<TrainerSection> trainer;  ///< exactly one of the two
  std::optional<ProgramSection> program;
  CheckpointSection checkpoint;
  RecoverySection recovery;
  HealthSection health;
  Place hosts_place;                 ///< of `hosts` in [job]
  Place logical_batches_place;       ///< of `logical_batches` in [trainer]
  std::vector<std::string> notices;  ///< what is accepted but has no effect yet

  friend bool operator==(const TrainFile&, const TrainFile&) = default;
};

/// Larger ones are refused.
constexpr std::size_t kTrainBytesMax = 1024 * 1024;

/// Where relative paths, `~` and --set count from.
struct TrainContext {
  std::string file;       ///< for problems
  std::string directory;  ///< absolute; of train.toml
  std::string home;
  std::vector<std::string> set;  ///< "job.name=x": overrides of the command line
};

using TrainOrProblems = std::variant<TrainFile, std::vector<Problem>>;

/// Every unknown, ineffective or wrong key is a problem with its place, all at once.
[[nodiscard]] TrainOrProblems parse_train(std::string_view text, const TrainContext& context);

/// What [program] inherits when it does not say.
[[nodiscard]] std::vector<std::string> default_inherit();

/// The environment variables that `patterns` choose; "CONDA_*" chooses by the beginning.
[[nodiscard]] std::map<std::string, std::string> inherited(
    const std::map<std::string, std::string>& environment,
    const std::vector<std::string>& patterns);

}  // namespace dlaunch::launcher::config
