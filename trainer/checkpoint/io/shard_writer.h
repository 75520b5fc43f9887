// Saves this rank's part of a checkpoint in the background while training goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "trainer/checkpoint/io/aligned_buffer.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

struct SaveRequest {
  std::filesystem::path directory;  ///< the checkpoint directory, not that of the step
  Step step;
  Generation generation;
  Rank rank;  ///< whose rows (layout.h) this rank writes
  std::uint32_t world_size = 1;
  nlohmann::json config = nlohmann::json::object();  ///< for the manifest; rank 0 only
  ManifestData data;                                 ///< for the manifest; rank 0 only
  std::string numerics{};                            ///< for the manifest; rank 0 only
};

/// What the agent needs to commit the file.
struct ShardReport {
  Step step;
  std::string file;  ///< name within the partial directory
  std::uint64_t bytes = 0;
  std::string hash;       ///< XXH3-128 of the whole file, hex
  double seconds = 0;     ///< from the snapshot to the bytes being on disk
  double blocked = 0;     ///< seconds `start` took of the training thread
  bool direct_io = true;  ///< false: the file system refused O_DIRECT
};

/// One save at a time. The snapshot buffer has the size of the shard and is kept for the next.
class ShardWriter {
 public:
  using Done = std::function<void(Result<ShardReport>)>;

  ShardWriter();
  /// Gives up a save in progress after its current block and waits for the thread.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Copies the rows that this rank writes and returns; `tensors` may change afterwards. Every
  /// rank gives the same specs in any order. `done` is called on the writer's thread, exactly
  /// once per successful start: bytes are on disk, or what failed where; it must not start the
  /// next. Rank 0 also writes manifest.json. Fails at once when a save is in progress or the views
  /// do not fit the layout.
  [[nodiscard]] Result<void> start(const SaveRequest& request, std::span<const TensorView> tensors,
                                   Done done);
  [[nodiscard]] bool busy() const;
  /// False: still writing after `limit`.
  [[nodiscard]] bool wait_idle(milliseconds limit);

 private:
  struct Job {
    SaveRequest request;
    std::string manifest;  ///< empty on ranks other than 0
    std::uint64_t bytes = 0;
    Instant begun;
    double blocked = 0;
    Done done;
  };

  [[nodiscard]] Result<ShardReport> save(const Job& job) const;
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;
  bool busy_ = false;
  std::atomic<bool> closing_{false};
  AlignedBuffer snapshot_;
  std::thread thread_;
};

}  // namespace dlaunch::checkpoint
