// The resolved [trainer] settings, as the agent hands them over with an assignment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dlaunch::trainer {

struct ModelSettings {
  std::uint32_t layers = 4;
  std::uint32_t width = 128;
  std::uint32_t heads = 4;
  std::uint32_t context = 128;
  std::uint32_t vocabulary = 256;  ///< ids are below it; bytes are 256
  friend bool operator==(const ModelSettings&, const ModelSettings&) = default;
};

/// Exactly one of the two paths is there, an absolute one.
struct DataSettings {
  std::string text;                        ///< its bytes are the tokens
  std::string tokens;                      ///< a file of ids, or Megatron's index of one
  std::uint32_t validation_per_mille = 0;  ///< of the data, kept out of the training
};

/// Of the learning rate, after the warm-up.
enum class Schedule { constant, cosine };

enum class Precision {
  fp32,
  bf16,  ///< products in bfloat16; weights, sums, norms and the loss in single precision
};

/// Where the model computes.
enum class Device { cpu, cuda };

enum class Strategy {
  ddp,   ///< every rank keeps the whole state
  fsdp,  ///< every rank keeps a share of it
  hsdp,  ///< groups of ranks keep a copy each, and every rank a share of its group's
};

struct TrainerSettings {
  Strategy strategy = Strategy::ddp;
  Precision precision = Precision::fp32;
  Device device = Device::cpu;
  bool activation_checkpointing = false;  ///< keep a block's input and run it again backward
  bool check_collectives = false;  ///< compare what all ranks are about to do before they do it
  std::uint32_t connections = 0;   ///< TCP, with each rank of another host; 0: by the world size
  bool prefetch = true;            ///< FSDP: gather a unit's values while the one before it runs
  std::uint32_t shard_size = 0;    ///< HSDP: ranks that share a copy; 0: those of a host
  std::uint64_t steps = 1;
  std::uint32_t logical_batches = 8;  ///< micro-batches per step, whatever the number of ranks
  std::uint32_t micro_batch = 8;      ///< sequences per micro-batch
  double learning_rate = 3e-4;
  std::uint64_t seed = 1;
  std::uint64_t warmup_steps = 0;
  Schedule schedule = Schedule::constant;
  double min_learning_rate = 0;   ///< where the cosine ends
  std::uint64_t decay_steps = 0;  ///< where it gets there, from the first step on
  double weight_decay = 0.1;
  double clip = 1.0;  ///< largest norm of the gradient; 0: none
  double beta1 = 0.9;
  double beta2 = 0.95;
  ModelSettings model;
  std::string weights;  ///< absolute path of a file with the first values; empty: random ones
  DataSettings data;
  std::uint64_t validate_every_steps = 0;    ///< 0: never
  std::uint64_t checkpoint_every_steps = 0;  ///< 0: only on request and at the end
  std::uint32_t threads = 1;

  /// Of the whole job in one step.
  [[nodiscard]] std::uint64_t tokens_per_step() const {
    return std::uint64_t{logical_batches} * micro_batch * model.context;
  }
};

/// `json` is the text of an object with the keys of docs/protocol.md. The error names every key
/// that is missing or out of its range, not only the first.
[[nodiscard]] Result<TrainerSettings> parse_settings(std::string_view json);

}  // namespace dlaunch::trainer
