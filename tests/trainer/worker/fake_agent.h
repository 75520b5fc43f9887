// Plays the agents of a whole job for real dlaunch-trainer processes: sockets, orders, commits.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/io/file_descriptor.h"
#include "base/time.h"
#include "protocol/worker_message.h"

namespace dlaunch::trainer {

/// One generous deadline for everything that must happen.
constexpr nanoseconds kSoon = 60s;

/// One trainer process as its agent sees it.
class FakeWorker {
 public:
  FakeWorker(Generation generation, Rank rank, std::uint32_t world_size,
             const std::filesystem::path& directory);
  /// Kills the process if it is still there.
  ~FakeWorker();
  FakeWorker(const FakeWorker&) = delete;
  FakeWorker& operator=(const FakeWorker&) = delete;

  void tell(Generation generation, protocol::AgentMessage::Body body);
  void kill(int signal) const;
  void close_socket() { connection_ = FileDescriptor(-1); }

  /// Everything it said so far, in order.
  [[nodiscard]] const std::vector<protocol::WorkerMessage>& said() const { return said_; }
  template <class Body>
  [[nodiscard]] std::vector<Body> all() const {
    std::vector<Body> bodies;
    for (const auto& message : said_) {
      if (const auto* body = std::get_if<Body>(&message.body)) bodies.push_back(*body);
    }
    return bodies;
  }
  template <class Body>
  [[nodiscard]] std::optional<Body> last() const {
    const auto bodies = all<Body>();
    return bodies.empty() ? std::optional<Body>{} : bodies.back();
  }
  /// Newest step that it says is complete; 0 before the first.
  [[nodiscard]] std::uint64_t step() const;

  [[nodiscard]] bool ended() const { return status_.has_value(); }
  /// -1 while it runs or when a signal ended it.
  [[nodiscard]] int exit_code() const;
  [[nodiscard]] int exit_signal() const;
  /// What it printed, both streams together.
  [[nodiscard]] std::string output() const;

  /// Takes in what is there to be read; returns whether anything was.
  bool look();
  [[nodiscard]] int fd() const {
    return connection_.get() >= 0 ? connection_.get() : listener_.get();
  }

 private:
  void start(Generation generation, Rank rank, std::uint32_t world_size, const std::string& socket);

  std::filesystem::path output_;
  FileDescriptor listener_{-1};
  FileDescriptor connection_{-1};
  pid_t pid_ = -1;
  std::optional<int> status_;
  protocol::LineReader reader_;
  std::vector<protocol::WorkerMessage> said_;
};

/// All ranks of a job on this machine.
class FakeJob {
 public:
  FakeJob(std::filesystem::path directory, std::string trainer)
      : directory_(std::move(directory)), trainer_(std::move(trainer)) {}

  /// Starts the processes of a generation and waits until all are parked.
  void start(std::uint32_t world_size, Generation generation = Generation{1});
  /// Assigns the workers that are there, in their order, and waits until all are restored.
  /// `restore`: step of a committed checkpoint.
  void assign(Generation generation, std::optional<std::uint64_t> restore = std::nullopt);
  /// Only sends the assignments.
  void send_assign(Generation generation, std::optional<std::uint64_t> restore = std::nullopt);
  void go() { tell_all(protocol::worker::Go{}); }
  void tell_all(const protocol::AgentMessage::Body& body);
  /// start, assign, go, and wait until all have ended.
  void run(std::uint32_t world_size, std::optional<std::uint64_t> restore = std::nullopt);

  /// Reads what the workers say until `condition`; a test failure with all output after kSoon.
  void wait_until(const std::string& what, const std::function<bool()>& condition);
  void wait_all_ended();

  [[nodiscard]] FakeWorker& worker(std::size_t index) { return *workers_.at(index); }
  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  template <class Body>
  [[nodiscard]] bool all_said() const {
    for (const auto& worker : workers_) {
      if (!worker->template last<Body>()) return false;
    }
    return true;
  }
  /// Forgets one that has died (a replacement starts with the next generation).
  void forget(std::size_t index) {
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(index));
  }
  void forget_all() { workers_.clear(); }

  /// As the agent does it on the controller's order: the files into the manifest, one rename.
  void commit(std::uint64_t step);
  [[nodiscard]] std::filesystem::path checkpoints() const { return directory_ / "checkpoints"; }
  /// Every tensor of a committed checkpoint, as bytes.
  [[nodiscard]] std::map<std::string, std::string> tensors(std::uint64_t step) const;
  void use_trainer(std::string trainer) { trainer_ = std::move(trainer); }

 private:
  [[nodiscard]] std::string all_output() const;

  std::filesystem::path directory_;
  std::string trainer_;
  Generation generation_;
  std::vector<std::unique_ptr<FakeWorker>> workers_;
};

}  // namespace dlaunch::trainer
