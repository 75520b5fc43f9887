#include "trainer/checkpoint/io/shard_writer.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/io/files.h"
#include "base/io/thread.h"
#include "trainer/checkpoint/io/durable_file.h"
#include "trainer/checkpoint/layout.h"
#include "trainer/checkpoint/shard_image.h"
#include "trainer/io/clock.h"

namespace dlaunch::checkpoint {
namespace {

std::string manifest_text(const SaveRequest& request, std::span<const TensorView> tensors) {
  if (request.rank.value != 0) return {};
  std::vector<TensorSpec> specs;
  for (const TensorView& view : tensors) specs.push_back(view.spec);
  auto manifest =
      make_manifest(request.step, request.world_size, request.config, request.data, specs);
  manifest.numerics = request.numerics;
  return format_manifest(manifest);
}

}  // namespace

ShardWriter::ShardWriter() {
  thread_ = thread_without_signals([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "dlaunch-save");
}

ShardWriter::~ShardWriter() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<void> ShardWriter::start(const SaveRequest& request, std::span<const TensorView> tensors,
                                Done done) {
  const Instant begun = trainer_now();
  const std::string doing = "saving step " + std::to_string(request.step.value);
  if (busy()) {
    return failure(std::errc::device_or_resource_busy, doing + " while another is being saved");
  }
  if (!request.config.is_object()) {
    return failure(std::errc::invalid_argument, doing + ": the settings are no JSON object");
  }
  const auto plan = plan_shard(tensors, request.world_size, request.rank);
  if (!plan) return tl::unexpected(plan.error());
  if (!snapshot_.reserve(plan->bytes)) {
    return failure(std::errc::not_enough_memory,
                   doing + ": a copy of " + std::to_string(plan->bytes) + " bytes");
  }
  copy_shard(*plan, snapshot_.bytes());
  const auto padding = snapshot_.bytes().subspan(plan->bytes);
  std::fill_n(padding.begin(), round_up_to_block(plan->bytes) - plan->bytes, std::byte{0});

  Job job{request, manifest_text(request, tensors), plan->bytes, begun, 0, std::move(done)};
  job.blocked = to_seconds(trainer_now() - begun);
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    busy_ = true;
  }
  changed_.notify_all();
  return {};
}

bool ShardWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

bool ShardWriter::wait_idle(milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return !busy_; });
}

Result<ShardReport> ShardWriter::save(const Job& job) const {
  const SaveRequest& request = job.request;
  const auto directory =
      request.directory / partial_directory_name(request.step, request.generation);
  if (auto made = make_directories(directory); !made) return tl::unexpected(made.error());

  ShardReport report;
  report.step = request.step;
  report.file = shard_name(request.world_size, request.rank);
  report.bytes = job.bytes;
  report.blocked = job.blocked;
  const auto written = write_image(directory / report.file, snapshot_.bytes(), job.bytes, closing_);
  if (!written) return tl::unexpected(written.error());
  report.hash = written->hash;
  report.direct_io = written->direct_io;
  // Either way the directory is synced, and with it the shard's name.
  const auto kept = job.manifest.empty() ? sync_directory(directory)
                                         : replace_file(directory / kManifestName, job.manifest);
  if (!kept) return tl::unexpected(kept.error());
  report.seconds = to_seconds(trainer_now() - job.begun);
  return report;
}

void ShardWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || job_; });
    if (!job_) return;
    const Job job = *std::exchange(job_, std::nullopt);
    lock.unlock();
    job.done(save(job));
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace dlaunch::checkpoint
