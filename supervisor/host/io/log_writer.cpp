#include "supervisor/host/io/log_writer.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include "supervisor/host/io/log_files.h"

namespace dlaunch::supervisor::host {
namespace {

constexpr std::uint64_t kFileBytesMin = 64U << 10U;
// All ranks' first and present files together have a quarter of what all logs may have.
constexpr std::uint64_t kFilesShare = 8;
// Orders without bytes: each worker has an open and a close.
constexpr std::size_t kOrderBytes = 64;

struct Open {
  LogWriter::File file = 0;
  Generation generation;
  Rank rank;
};
struct Write {
  LogWriter::File file = 0;
  std::uint64_t missing = 0;  ///< bytes that were dropped just before
  std::string bytes;
};
struct Close {
  LogWriter::File file = 0;
  std::uint64_t missing = 0;
};
struct Keep {
  Generation generation;
};
struct Line {
  std::string text;
};
using Order = std::variant<Open, Write, Close, Keep, Line>;

std::size_t size_of(const Order& order) {
  const auto* write = std::get_if<Write>(&order);
  const auto* line = std::get_if<Line>(&order);
  return kOrderBytes + (write != nullptr ? write->bytes.size() : 0) +
         (line != nullptr ? line->text.size() : 0);
}

/// A rank's present file; of the thread alone.
struct Current {
  Generation generation;
  Rank rank;
  FileDescriptor file;
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;  ///< that could not be written
  std::string reason;
};

std::string gap(std::uint64_t bytes, const std::string& reason) {
  return "\n[dlaunch: " + std::to_string(bytes) + " bytes of output are missing here: " + reason +
         "]\n";
}

}  // namespace

struct LogWriter::State {
  explicit State(Setting wish) : setting(std::move(wish)) {}

  const Setting setting;
  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex.
  std::deque<Order> waiting;
  std::size_t waiting_bytes = 0;
  std::map<File, std::uint64_t> missing;  ///< of each open file, since its last accepted bytes
  File newest = 0;
  bool busy = false;
  bool stopping = false;
  // Of the thread.
  std::map<File, Current> files;

  void put(Order order) {
    waiting_bytes += size_of(order);
    waiting.push_back(std::move(order));
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || !waiting.empty(); });
      if (waiting.empty()) break;
      const auto order = std::move(waiting.front());
      waiting.pop_front();
      busy = true;
      lock.unlock();
      std::visit([this](const auto& one) { carry_out(one); }, order);
      lock.lock();
      // Only now: what the disk has not taken yet still waits for it.
      waiting_bytes -= size_of(order);
      busy = false;
      changed.notify_all();
    }
  }

  void carry_out(const Open& order) {
    auto& current = files[order.file];
    current.generation = order.generation;
    current.rank = order.rank;
    begin_file(current);
  }
  void begin_file(Current& current) {
    auto opened = open_log_file(setting.directory, current.generation, current.rank);
    if (!opened) {
      current.reason = opened.error().text();
      return;
    }
    current.file = std::move(*opened);
    current.bytes = 0;
    trim_logs(setting.directory, setting.bytes_max);
  }
  void carry_out(const Write& order) {
    const auto found = files.find(order.file);
    if (found == files.end()) return;
    auto& current = found->second;
    const auto share = setting.bytes_max / kFilesShare / std::max<std::size_t>(files.size(), 1);
    if (!current.file.is_open() || current.bytes >= std::max(share, kFileBytesMin)) {
      begin_file(current);
    }
    if (order.missing > 0) append(current, gap(order.missing, "the disk was too slow"), 0);
    append(current, order.bytes, order.bytes.size());
  }
  void append(Current& current, std::string bytes, std::size_t counted) {
    if (!current.file.is_open()) {
      current.lost += counted;
      return;
    }
    if (current.lost > 0) bytes = gap(current.lost, current.reason) + bytes;
    if (const auto done = setting.write(current.file.get(), bytes); !done) {
      current.lost += counted;
      current.reason = done.error().code.message();
      return;
    }
    current.lost = 0;
    current.bytes += bytes.size();
  }
  void carry_out(const Close& order) {
    const auto found = files.find(order.file);
    if (found == files.end()) return;
    if (order.missing > 0) append(found->second, gap(order.missing, "the disk was too slow"), 0);
    if (found->second.lost > 0) {
      carry_out(Line{std::to_string(found->second.lost) + " bytes of the output of rank " +
                     std::to_string(found->second.rank.value) +
                     " are not in its log: " + found->second.reason});
    }
    files.erase(found);
  }
  void carry_out(const Keep& order) const { keep_logs(setting.directory, order.generation); }
  void carry_out(const Line& order) const { (void)write_all(STDERR_FILENO, order.text + "\n"); }
};

LogWriter::LogWriter(Setting setting) : state_(std::make_unique<State>(std::move(setting))) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the main thread
  thread_ = std::thread([state = state_.get()] { state->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogWriter::~LogWriter() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  thread_.join();
}

LogWriter::File LogWriter::open(Generation generation, Rank rank) {
  const std::lock_guard lock(state_->mutex);
  const auto file = ++state_->newest;
  state_->missing[file] = 0;
  state_->put(Open{file, generation, rank});
  return file;
}

void LogWriter::write(File file, std::string_view bytes) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->missing.find(file);
  if (found == state_->missing.end()) return;
  if (state_->waiting_bytes + bytes.size() > state_->setting.waiting_bytes_max) {
    found->second += bytes.size();
    return;
  }
  state_->put(Write{file, std::exchange(found->second, 0), std::string(bytes)});
}

void LogWriter::close(File file) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->missing.find(file);
  if (found == state_->missing.end()) return;
  state_->put(Close{file, found->second});
  state_->missing.erase(found);
}

void LogWriter::keep(Generation generation) {
  const std::lock_guard lock(state_->mutex);
  state_->put(Keep{generation});
}

void LogWriter::note(const std::string& line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->waiting_bytes > state_->setting.waiting_bytes_max) return;
  state_->put(Line{line});
}

bool LogWriter::flush(nanoseconds limit) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit,
                                  [this] { return state_->waiting.empty() && !state_->busy; });
}

}  // namespace dlaunch::supervisor::host
