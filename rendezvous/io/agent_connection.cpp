#include "rendezvous/io/agent_connection.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/io/clock.h"
#include "base/io/must_not_throw.h"
#include "protocol/limits.h"

namespace dlaunch::rendezvous {

namespace asio = boost::asio;
using protocol::AgentFrame;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);
// A TLS record has at most as much.
constexpr std::size_t kReadBytes = 16 * 1024;
// An agent that sends faster than it is read must not keep the others waiting.
constexpr std::size_t kTurnBytesMax = 64 * 1024;
// Several small frames leave in one TLS record of at most 16 KiB.
constexpr std::size_t kWriteBytes = 16 * 1024;
// Beats and aborts leave at once; what is larger leaves in turns with reading, so that an order to
// thousands of hosts keeps nobody's news waiting.
constexpr std::size_t kAtOnceBytesMax = 1024;

}  // namespace

AgentConnection::AgentConnection(asio::io_context& context, std::shared_ptr<ByteStream> stream,
                                 Handlers handlers)
    : context_(context),
      stream_(std::move(stream)),
      handlers_(std::move(handlers)),
      reader_(protocol::kHelloBytesMax),
      wake_(context, asio::steady_timer::time_point::max()) {}

void AgentConnection::start(HostId host, std::string job) {
  host_ = host;
  job_ = std::move(job);
  if (closed_) return;
  // Reading and writing end when the stream is closed, and hold this alive until then.
  auto keep = [self = shared_from_this()](const std::exception_ptr& problem) {
    must_not_throw(problem);
  };
  asio::co_spawn(context_, write_frames(), keep);
  read_frames();
}

void AgentConnection::read_frames() {
  if (closed_) return;
  const auto more = read_what_came();
  if (!more) return close(more.error().text());
  if (closed_) return;
  if (*more) {
    asio::post(context_, [self = shared_from_this()] { self->read_frames(); });
  } else {
    stream_->tell_when_readable(std::shared_ptr<ByteStream::Reader>(shared_from_this(), this));
  }
}

void AgentConnection::on_readable(Result<void> ready) {
  if (!ready) return close(ready.error().text());
  read_frames();
}

/// True: there is more than belongs into one turn.
Result<bool> AgentConnection::read_what_came() {
  // One for all connections of the thread: nothing stays in it.
  static thread_local std::array<char, kReadBytes> buffer;
  for (std::size_t sum = 0; sum < kTurnBytesMax && !closed_;) {
    const auto count = stream_->read_now(buffer);
    if (!count) return tl::unexpected(count.error());
    if (*count == 0) {
      if (beat_ && !spoke_) send(std::exchange(beat_, nullptr));
      return false;
    }
    sum += *count;
    if (auto taken = take_frames({buffer.data(), *count}); !taken) {
      return tl::unexpected(taken.error());
    }
  }
  return true;
}

Result<void> AgentConnection::take_frames(std::string_view bytes) {
  while (!closed_) {
    const auto message = reader_.cut(bytes);
    if (!message) return tl::unexpected(message.error());
    if (!*message) return {};
    AgentFrame frame;
    if (!frame.ParseFromArray((*message)->data(), static_cast<int>((*message)->size()))) {
      return failure(
          std::errc::bad_message,
          "it sent a frame that cannot be read: a broken agent or one of another version");
    }
    if (frame.number() <= received_) {
      return failure(std::errc::protocol_error, "it sent frame " + std::to_string(frame.number()) +
                                                    " after frame " + std::to_string(received_));
    }
    received_ = frame.number();
    spoke_ = false;
    const auto sent_at = queue_.on_acknowledged(frame.acknowledged());
    if (!sent_at) return tl::unexpected(sent_at.error());
    if (!greeted_) {
      if (auto checked = check_hello(frame); !checked) return checked;
      greeted_ = true;
      reader_.set_limit(protocol::kFrameBytesMax);
    }
    handlers_.frame(std::move(frame), *sent_at);
  }
  return {};
}

Result<void> AgentConnection::check_hello(const AgentFrame& frame) const {
  if (!frame.has_hello()) {
    return failure(std::errc::protocol_error, "its first frame is not a hello");
  }
  if (frame.host() != host_.value || frame.job() != job_) {
    return failure(std::errc::protocol_error,
                   "it has the key of host " + std::to_string(host_.value) + " of " + job_ +
                       " and says to be host " + std::to_string(frame.host()) + " of another job");
  }
  return {};
}

asio::awaitable<void> AgentConnection::write_frames() {
  while (!closed_) {
    if (!writing_) {
      auto waiting = wake_.async_wait(kToken);
      co_await std::move(waiting);
      continue;
    }
    if (unsent_.empty()) queue_.take(unsent_, monotonic_now(), received_, kWriteBytes);
    auto writing = write_unsent();
    const auto written = co_await std::move(writing);
    unsent_ = Outgoing();  // what a large order took is given back
    writing_ = !queue_.empty();
    if (!written) close(written.error().text());
  }
}

asio::awaitable<Result<void>> AgentConnection::write_unsent() {
  const std::string_view body = unsent_.large ? unsent_.large->body : std::string_view();
  for (const std::string_view part :
       std::array<std::string_view, 3>({unsent_.bytes, body, unsent_.end})) {
    if (part.empty()) continue;
    auto writing = stream_->write(part);
    auto written = co_await std::move(writing);
    if (!written) co_return written;
  }
  co_return Result<void>();
}

/// Waking the coroutine costs more than writing a beat.
void AgentConnection::write_small() {
  if (writing_) return;
  if (queue_.waiting_bytes() <= kAtOnceBytesMax) {
    queue_.take(unsent_, monotonic_now(), received_, kWriteBytes);
    const auto gone = stream_->write_now(unsent_.bytes);
    if (!gone) return close(gone.error().text());
    if (*gone) return unsent_.bytes.clear();
  }
  writing_ = true;
  wake_.cancel();
}

void AgentConnection::beat(std::shared_ptr<const OutgoingFrame> frame) {
  if (spoke_ && !beat_) {
    beat_ = std::move(frame);
    return;
  }
  beat_.reset();
  send(std::move(frame));
}

void AgentConnection::send(std::shared_ptr<const OutgoingFrame> frame) {
  if (closed_) return;
  spoke_ = true;
  if (!queue_.push(std::move(frame))) {
    close("it reads too slowly: " + std::to_string(protocol::kSendQueueBytesMax >> 20U) +
          " MiB wait for it");
    return;
  }
  write_small();
}

void AgentConnection::close(std::string reason) {
  if (std::exchange(closed_, true)) return;
  stream_->close();
  wake_.cancel();
  handlers_.closed(std::move(reason));
}

}  // namespace dlaunch::rendezvous
