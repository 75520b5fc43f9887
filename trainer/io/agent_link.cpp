// A poll loop over the worker socket and an eventfd; the training thread never touches either.
#include "trainer/io/agent_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "trainer/exit_code.h"
#include "trainer/io/clock.h"

namespace dlaunch::trainer {

namespace {

/// A few messages per step at most, besides progress, of which one waits: an agent that is this far
/// behind does not read at all.
constexpr std::size_t kQueueBytesMax = 1024 * 1024;
/// How often collectives are looked at between steps, for a rank that is stuck in one.
constexpr milliseconds kLookInterval = 500ms;

}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::connect(const std::string& path, Mailbox& mailbox) {
  const auto doing = "connecting to the agent at " + path + " (DLAUNCH_SOCKET)";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return failure(std::errc::filename_too_long, doing);
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return failure_from_errno(errno, doing);
  // The type punning that the sockets API asks for.
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failure_from_errno(errno, doing);
  }
  FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return failure_from_errno(errno, doing);
  return std::unique_ptr<AgentLink>(new AgentLink(std::move(socket), std::move(wake), mailbox));
}

AgentLink::AgentLink(FileDescriptor socket, FileDescriptor wake, Mailbox& mailbox)
    : socket_(std::move(socket)), wake_(std::move(wake)), mailbox_(mailbox) {
  thread_ = std::thread([this] { run(); });
}

AgentLink::~AgentLink() {
  leaving_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);
  wake();
  thread_.join();
}

void AgentLink::wake() const {
  const std::uint64_t one = 1;
  // A full counter means that the thread is awake anyway.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void AgentLink::end_process(const std::string& why) const {
  std::fprintf(stderr, "dlaunch-trainer: %s; nobody supervises this worker any more, it ends\n",
               why.c_str());
  std::_Exit(kExitAgentGone);
}

void AgentLink::send(Generation generation, protocol::WorkerMessage::Body body) {
  {
    const std::lock_guard lock(mutex_);
    queue_waiting_progress();
    queue({generation, std::move(body)});
  }
  wake();
}

void AgentLink::queue(const protocol::WorkerMessage& message) {
  auto line = protocol::format_line(message);
  if (!line) end_process(line.error().text());
  queued_bytes_ += line->size();
  if (queued_bytes_ > kQueueBytesMax) end_process("the agent does not read its socket");
  queue_.push_back(std::move(*line));
}

void AgentLink::set_progress(Generation generation, const protocol::worker::Progress& progress) {
  bool was_changed;
  {
    const std::lock_guard lock(mutex_);
    progress_ = protocol::WorkerMessage{generation, progress};
    was_changed = std::exchange(progress_changed_, true);
  }
  if (!was_changed) wake();
}

void AgentLink::watch_collectives(std::function<comm::CollectiveState()> collectives) {
  const std::lock_guard lock(mutex_);
  queue_waiting_progress();
  collectives_ = std::move(collectives);
  if (!collectives_) progress_.reset();
}

bool AgentLink::leave(milliseconds limit) {
  leaving_ = true;
  wake();
  std::unique_lock lock(mutex_);
  return drained_.wait_for(lock, limit, [this] { return queue_.empty(); });
}

/// What is said after it must not overtake it: the last step has its loss.
void AgentLink::queue_waiting_progress() {
  if (progress_changed_) queue_progress(progress_due_);
}

void AgentLink::queue_progress(Instant now) {
  if (!progress_ || now < progress_due_) return;
  auto& progress = std::get<protocol::worker::Progress>(progress_->body);
  if (collectives_) {
    const auto state = collectives_();
    if (state.sequence != progress.sequence || state.entered != progress.entered) {
      progress.sequence = state.sequence;
      progress.entered = state.entered;
      progress_changed_ = true;
    }
  }
  if (!std::exchange(progress_changed_, false)) return;
  progress_due_ = now + kProgressInterval;
  queue(*progress_);
}

void AgentLink::write_queue() {
  while (!queue_.empty()) {
    const auto& line = queue_.front();
    const auto sent = ::send(socket_.get(), line.data() + sent_of_first_,
                             line.size() - sent_of_first_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      if (!leaving_) end_process("the agent closed the worker socket");
      queue_.clear();
      closed_ = true;
      break;
    }
    sent_of_first_ += static_cast<std::size_t>(sent);
    if (sent_of_first_ < line.size()) return;
    queued_bytes_ -= line.size();
    sent_of_first_ = 0;
    queue_.pop_front();
  }
  drained_.notify_all();
}

void AgentLink::read_lines() {
  std::array<char, 16 * 1024> bytes;
  const auto got = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    if (!leaving_) end_process("the agent closed the worker socket");
    closed_ = true;
    return;
  }
  reader_.feed({bytes.data(), static_cast<std::size_t>(got)});
  while (true) {
    const auto line = reader_.next();
    if (!line) end_process(line.error().text());
    if (!*line) return;
    const auto message = protocol::parse_agent_line(**line);
    if (!message) end_process(message.error().text());
    if (*message) mailbox_.deliver(**message);
  }
}

void AgentLink::run() {
  while (!closed_) {
    std::array<pollfd, 2> polled{{{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    auto wait = kLookInterval;
    {
      const std::lock_guard lock(mutex_);
      const auto now = trainer_now();
      queue_progress(now);
      write_queue();
      if (!queue_.empty()) polled[0].events |= POLLOUT;
      if (progress_changed_) {
        wait = std::chrono::ceil<milliseconds>(std::max(progress_due_ - now, nanoseconds{0}));
      }
      // Destroyed: nobody is left who could queue more.
      if (closed_) return;
    }
    if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0) continue;
    if (polled[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto read = ::read(wake_.get(), &count, sizeof count);
    }
    if ((polled[0].revents & ~POLLOUT) != 0) read_lines();
  }
}

}  // namespace dlaunch::trainer
