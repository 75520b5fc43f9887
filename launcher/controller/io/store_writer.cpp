#include "launcher/controller/io/store_writer.h"

#include <algorithm>
#include <utility>

namespace dlaunch::launcher::controller {
namespace {

constexpr seconds kRetryEvery{1};

/// The newer one makes the older one needless.
bool replaces(const Row& newer, const Row& older) {
  if (std::holds_alternative<StatusRow>(newer)) return std::holds_alternative<StatusRow>(older);
  const auto* output = std::get_if<OutputRow>(&newer);
  const auto* before = std::get_if<OutputRow>(&older);
  return output != nullptr && before != nullptr && output->generation == before->generation;
}

}  // namespace

StoreWriter::StoreWriter(RunStore store, Handlers handlers)
    : store_(std::move(store)), handlers_(std::move(handlers)), thread_([this] { run(); }) {}

StoreWriter::~StoreWriter() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreWriter::put(Row row) {
  {
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<StatusRow>(row) || std::holds_alternative<OutputRow>(row)) {
      const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                      [&row](const Row& waits) { return replaces(row, waits); });
      if (found != waiting_.end()) {
        *found = std::move(row);
        return;
      }
    }
    const auto* journal = std::get_if<JournalRow>(&row);
    if (journal != nullptr && !tickets_.insert(journal->ticket).second) return;
    const bool droppable =
        !std::holds_alternative<JournalRow>(row) && !std::holds_alternative<EndRow>(row);
    if (droppable && waiting_.size() >= kRowsWaitingMax) {
      ++dropped_;
      return;
    }
    waiting_.push_back(std::move(row));
    ++put_;
  }
  changed_.notify_all();
}

void StoreWriter::read(std::function<void(RunStore&)> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

bool StoreWriter::flush(nanoseconds limit) {
  std::unique_lock lock(mutex_);
  const auto goal = put_;
  return changed_.wait_for(lock, limit, [&] { return written_ >= goal; });
}

void StoreWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty() || !tasks_.empty(); });
    const auto tasks = std::exchange(tasks_, {});
    if (!tasks.empty()) {
      lock.unlock();
      for (const auto& task : tasks) task(store_);
      lock.lock();
    }
    if (waiting_.empty() && tasks_.empty() && ending_) return;
    if (waiting_.empty()) continue;
    const auto batch = std::exchange(waiting_, {});
    lock.unlock();
    const bool done = write(batch);
    lock.lock();
    if (done) {
      written_ += batch.size();
      for (const auto& row : batch) {
        if (const auto* journal = std::get_if<JournalRow>(&row)) tickets_.erase(journal->ticket);
      }
      changed_.notify_all();
      continue;
    }
    // Older rows first, and of two states the newer one.
    waiting_.insert(waiting_.begin(), batch.begin(), batch.end());
    if (ending_) return;
    changed_.wait_for(lock, kRetryEvery, [this] { return ending_ || !tasks_.empty(); });
  }
}

bool StoreWriter::write(const std::vector<Row>& batch) {
  const auto written = store_.write(batch);
  if (!written) {
    failing_ = true;
    handlers_.failed("run.db cannot be written, decisions wait: " + written.error().text() +
                     "; make room or repair the file system, writing is tried again each second");
    return false;
  }
  std::vector<std::uint64_t> tickets;
  for (const auto& row : batch) {
    const auto* journal = std::get_if<JournalRow>(&row);
    if (journal == nullptr) continue;
    tickets.push_back(journal->ticket);
    if (handlers_.on_disk) handlers_.on_disk(journal->kind);
  }
  if (std::exchange(failing_, false)) handlers_.well();
  if (!tickets.empty()) handlers_.journaled(std::move(tickets));
  return true;
}

}  // namespace dlaunch::launcher::controller
