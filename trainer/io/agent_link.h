// The worker's end of the worker socket: one thread that reads orders and sends what is told.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/worker_message.h"
#include "trainer/comm/recorder.h"
#include "trainer/mailbox.h"

namespace dlaunch::trainer {

/// Between two progress lines; changes in between wait and only the newest is sent.
constexpr milliseconds kProgressInterval = 50ms;

/// The agent is the worker's lifeline: when it closes the socket, sends what is no message or does
/// not read for a long time, the process ends at once with kExitAgentGone.
class AgentLink {
 public:
  /// `path`: DLAUNCH_SOCKET. Orders go to `mailbox`, which must outlive the link.
  [[nodiscard]] static Result<std::unique_ptr<AgentLink>> connect(const std::string& path,
                                                                  Mailbox& mailbox);
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  /// In order, from any thread; never waits.
  void send(Generation generation, protocol::WorkerMessage::Body body);
  /// Sent when its time has come. The link adds the state of the collectives, also when it changes
  /// between two calls.
  void set_progress(Generation generation, const protocol::worker::Progress& progress);
  /// `collectives` is called on the link's thread until it is replaced or cleared (nullptr).
  void watch_collectives(std::function<comm::CollectiveState()> collectives);
  /// Sends what is queued and then lets the agent close. False: it was not all sent in time.
  [[nodiscard]] bool leave(milliseconds limit);

 private:
  AgentLink(FileDescriptor socket, FileDescriptor wake, Mailbox& mailbox);

  void run();
  void read_lines();
  void write_queue();
  void queue_progress(Instant now);
  void queue_waiting_progress();
  void queue(const protocol::WorkerMessage& message);
  void wake() const;
  [[noreturn]] void end_process(const std::string& why) const;

  const FileDescriptor socket_;
  const FileDescriptor wake_;
  Mailbox& mailbox_;
  protocol::LineReader reader_;
  std::atomic<bool> leaving_{false};
  bool closed_ = false;  ///< of the link's thread

  std::mutex mutex_;
  std::condition_variable drained_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  std::size_t sent_of_first_ = 0;
  std::optional<protocol::WorkerMessage> progress_;
  bool progress_changed_ = false;
  Instant progress_due_{};
  std::function<comm::CollectiveState()> collectives_;
  std::thread thread_;
};

}  // namespace dlaunch::trainer
