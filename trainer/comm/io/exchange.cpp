#include "trainer/comm/io/exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

/// Moved for one rank before the next has its turn, so that a fast one does not starve the rest.
constexpr std::size_t kTurnBytes = 512 * 1024;
/// Places that one system call reads from or writes to; a block of a model has about a dozen.
constexpr std::size_t kPartsMax = 32;

std::string name_of(const Stage& stage) {
  return std::string(name_of(stage.operation)) + " " + std::to_string(stage.sequence);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// The sentence says all; a system code behind it would only puzzle.
tl::unexpected<CommFailure> failed(FailureKind kind, std::string doing,
                                   std::optional<Rank> suspect = std::nullopt) {
  return tl::unexpected(CommFailure{kind, {{}, std::move(doing)}, suspect});
}

int milliseconds_until(Instant deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - trainer_now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

}  // namespace

Exchange::Exchange(Rank self, std::vector<Link> links, std::shared_ptr<AbortFlag> abort)
    : self_(self), links_(std::move(links)), abort_(std::move(abort)), progress_(links_.size()) {}

CommResult<void> Exchange::run(const Stage& stage, std::span<const Transfer> transfers) {
  prepare(stage, transfers);
  while (true) {
    if (abort_->is_set()) {
      return failed(FailureKind::aborted, name_of(stage) + " was ended: " + abort_->reason());
    }
    if (closed_.is_set()) {
      return failed(FailureKind::local, name_of(stage) + " was ended: " + closed_.reason());
    }
    if (auto moved = advance_all(stage, transfers); !moved) return moved;
    if (finished()) return {};
    if (auto woken = wait_for_sockets(stage); !woken) return woken;
  }
}

/// The next places, at most kTurnBytes of them.
template <class Byte>
std::size_t Exchange::fill(std::span<iovec> parts, const Pieces<Byte>& pieces, Place place) {
  std::size_t used = 0, bytes = 0;
  while (used < parts.size() && bytes < kTurnBytes && place.piece < pieces.parts().size()) {
    const auto rest = pieces.parts()[place.piece].subspan(place.offset);
    const std::size_t length = std::min(rest.size(), kTurnBytes - bytes);
    // sendmsg does not write through this pointer; iovec only has no const.
    parts[used++] = {const_cast<std::byte*>(rest.data()), length};
    bytes += length;
    place = {place.piece + 1, 0};
  }
  return used;
}

template <class Byte>
void Exchange::move_on(Place& place, const Pieces<Byte>& pieces, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t left = pieces.parts()[place.piece].size() - place.offset;
    if (bytes < left) {
      place.offset += bytes;
      return;
    }
    bytes -= left;
    place = {place.piece + 1, 0};
  }
}

void Exchange::prepare(const Stage& stage, std::span<const Transfer> transfers) {
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    Progress& progress = progress_[rank];
    progress = Progress();
    if (rank == self_.value) continue;
    const Transfer& transfer = transfers[rank];
    if (transfer.send) {
      progress.out_frame = encode(
          Frame{stage.operation, stage.phase, stage.sequence, transfer.send->size(), stage.total});
      progress.to_send = kFrameBytes + transfer.send->size();
    }
    if (transfer.receive) progress.to_receive = kFrameBytes + transfer.receive->size();
  }
}

bool Exchange::finished() const {
  return std::ranges::none_of(progress_, [](const Progress& progress) {
    return progress.sending() || progress.receiving();
  });
}

CommResult<void> Exchange::advance_all(const Stage& stage, std::span<const Transfer> transfers) {
  bool moved = true;
  while (moved && !abort_->is_set()) {
    moved = false;
    for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
      if (progress_[rank].receiving()) {
        const auto received = advance_receive(stage, rank, transfers[rank]);
        if (!received) return tl::unexpected(received.error());
        moved = moved || *received;
      }
      if (progress_[rank].sending()) {
        const auto sent = advance_send(stage, rank, transfers[rank]);
        if (!sent) return tl::unexpected(sent.error());
        moved = moved || *sent;
      }
    }
  }
  return {};
}

CommResult<bool> Exchange::advance_send(const Stage& stage, std::uint32_t rank,
                                        const Transfer& transfer) {
  Progress& progress = progress_[rank];
  std::array<iovec, kPartsMax> parts{};
  std::size_t used = 0;
  const std::size_t frame_left = kFrameBytes - std::min(progress.sent, kFrameBytes);
  if (frame_left > 0) parts[used++] = {progress.out_frame.data() + progress.sent, frame_left};
  used += fill(std::span(parts).subspan(used), *transfer.send, progress.send_place);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const auto count = ::sendmsg(links_[rank].socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) {
    if (would_block(errno)) return false;
    const int error = errno;
    if (const auto words = last_words(rank)) return tl::unexpected(left(stage, rank, *words));
    return tl::unexpected(lost(stage, rank, error));
  }
  const auto bytes = static_cast<std::size_t>(count);
  progress.sent += bytes;
  move_on(progress.send_place, *transfer.send, bytes - std::min(bytes, frame_left));
  bytes_sent_ += static_cast<std::uint64_t>(count);
  return true;
}

std::optional<Leaving> Exchange::last_words(std::uint32_t rank) {
  Progress& progress = progress_[rank];
  while (progress.received < kFrameBytes) {
    const auto rest = std::span(progress.in_frame).subspan(progress.received);
    const auto count = ::recv(links_[rank].socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
    if (count <= 0) return std::nullopt;
    progress.received += static_cast<std::size_t>(count);
  }
  return progress.received == kFrameBytes ? decode_leaving(progress.in_frame) : std::nullopt;
}

CommResult<bool> Exchange::advance_receive(const Stage& stage, std::uint32_t rank,
                                           const Transfer& transfer) {
  Progress& progress = progress_[rank];
  const bool in_frame = progress.received < kFrameBytes;
  std::array<iovec, kPartsMax> parts{};
  std::size_t used = 1;
  if (in_frame) {
    parts[0] = {progress.in_frame.data() + progress.received, kFrameBytes - progress.received};
  } else {
    used = fill(std::span(parts), *transfer.receive, progress.receive_place);
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const auto count = ::recvmsg(links_[rank].socket.get(), &message, MSG_DONTWAIT);
  if (count < 0) {
    if (would_block(errno)) return false;
    return tl::unexpected(lost(stage, rank, errno));
  }
  if (count == 0) return tl::unexpected(lost(stage, rank, 0));
  progress.received += static_cast<std::size_t>(count);
  if (!in_frame) {
    move_on(progress.receive_place, *transfer.receive, static_cast<std::size_t>(count));
  }
  if (in_frame && progress.received == kFrameBytes) {
    if (auto right = check_frame(stage, rank, transfer); !right) {
      return tl::unexpected(right.error());
    }
  }
  return true;
}

CommResult<void> Exchange::check_frame(const Stage& stage, std::uint32_t rank,
                                       const Transfer& transfer) {
  const FrameBytes& bytes = progress_[rank].in_frame;
  if (const auto leaving = decode_leaving(bytes)) {
    return tl::unexpected(left(stage, rank, *leaving));
  }
  const auto frame = decode_frame(bytes);
  if (!frame) {
    return failed(
        FailureKind::mismatch,
        links_[rank].name + " sent what is no message of the mesh during " + name_of(stage),
        Rank{rank});
  }
  const Frame expected{stage.operation, stage.phase, stage.sequence,
                       transfer.receive ? transfer.receive->size() : frame->payload, stage.total};
  if (transfer.receive && *frame == expected) return {};
  return failed(FailureKind::mismatch,
                links_[rank].name + " is in " + describe(*frame) + " while this rank is in " +
                    describe(expected),
                Rank{rank});
}

CommResult<void> Exchange::wait_for_sockets(const Stage& stage) {
  polled_.clear();
  polled_ranks_.clear();
  polled_.push_back({abort_->fd(), POLLIN, 0});
  polled_.push_back({closed_.fd(), POLLIN, 0});
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    const Progress& progress = progress_[rank];
    if (rank == self_.value || progress.departed) continue;
    short events = POLLRDHUP;
    if (progress.receiving()) events |= POLLIN;
    if (progress.sending()) events |= POLLOUT;
    polled_.push_back({links_[rank].socket.get(), events, 0});
    polled_ranks_.push_back(rank);
  }
  const int ready = ::poll(polled_.data(), polled_.size(), milliseconds_until(stage.deadline));
  if (ready < 0 && errno != EINTR) {
    return tl::unexpected(CommFailure{FailureKind::local,
                                      {std::error_code(errno, std::generic_category()),
                                       "waiting for the other ranks in " + name_of(stage)},
                                      std::nullopt});
  }
  for (std::size_t i = 0; ready > 0 && i < polled_ranks_.size(); ++i) {
    const std::uint32_t rank = polled_ranks_[i];
    const bool idle = !progress_[rank].receiving() && !progress_[rank].sending();
    if (!idle || (polled_[i + 2].revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) continue;
    if (auto ignored = on_departure(stage, rank); !ignored) return ignored;
  }
  if (trainer_now() >= stage.deadline) return tl::unexpected(late(stage));
  return {};
}

CommResult<void> Exchange::on_departure(const Stage& stage, std::uint32_t rank) {
  FrameBytes next{};
  const auto count =
      ::recv(links_[rank].socket.get(), next.data(), next.size(), MSG_PEEK | MSG_DONTWAIT);
  const auto words = count == kFrameBytes ? decode_leaving(next) : std::nullopt;
  if (words) return tl::unexpected(left(stage, rank, *words));
  // Without last words it may have been done with everything, but only after the last exchange.
  if (count <= 0 && !stage.last) return tl::unexpected(lost(stage, rank, count < 0 ? errno : 0));
  progress_[rank].departed = true;
  return {};
}

void Exchange::leave(const CommFailure& failure) {
  const FrameBytes words = encode(Leaving{failure.kind, failure.suspect});
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    if (!links_[rank].socket.is_open()) continue;
    // In the middle of a message the words would be taken for its payload.
    const bool between_messages =
        progress_[rank].sent == 0 || progress_[rank].sent == progress_[rank].to_send;
    if (between_messages) {
      static_cast<void>(::send(links_[rank].socket.get(), words.data(), words.size(),
                               MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    links_[rank].socket.reset();
  }
}

CommFailure Exchange::lost(const Stage& stage, std::uint32_t rank, int error) const {
  std::string doing = links_[rank].name + " closed the connection during " + name_of(stage);
  if (error == 0 || error == EPIPE) error = ECONNRESET;
  if (error != ECONNRESET) {
    doing = "the connection to " + links_[rank].name + " broke during " + name_of(stage);
  }
  return {FailureKind::peer_lost,
          {std::error_code(error, std::generic_category()), std::move(doing)},
          Rank{rank}};
}

CommFailure Exchange::left(const Stage& stage, std::uint32_t rank, const Leaving& leaving) const {
  std::string doing = links_[rank].name + " left " + name_of(stage);
  std::optional<Rank> suspect = leaving.suspect;
  if (leaving.kind == FailureKind::aborted) {
    doing += " because the generation was ended";
  } else if (suspect == self_) {
    doing += " because it lost the connection to this rank";
  } else if (suspect && suspect->value < world_size()) {
    doing += " because of " + links_[suspect->value].name;
  } else {
    suspect = Rank{rank};
  }
  const auto kind = leaving.kind == FailureKind::local ? FailureKind::peer_lost : leaving.kind;
  return {kind, {{}, std::move(doing)}, suspect};
}

CommFailure Exchange::late(const Stage& stage) const {
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    const Progress& progress = progress_[rank];
    if (!progress.receiving()) continue;
    const bool begun = progress.received > 0 || stage.phase > 0;
    return {FailureKind::timed_out,
            {{},
             links_[rank].name + (begun ? " stopped in the middle of " : " did not come to ") +
                 name_of(stage)},
            Rank{rank}};
  }
  for (std::uint32_t rank = 0; rank < world_size(); ++rank) {
    if (!progress_[rank].sending()) continue;
    return {FailureKind::timed_out,
            {{}, links_[rank].name + " stopped reading during " + name_of(stage)},
            Rank{rank}};
  }
  return {FailureKind::timed_out, {{}, name_of(stage) + " took too long"}, std::nullopt};
}

}  // namespace dlaunch::comm
