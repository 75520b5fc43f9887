#include "trainer/comm/io/exchange.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

/// Places that one system call reads from or writes to; a block of a model has about a dozen.
constexpr std::size_t kPartsMax = 32;
/// How long a rank looks at shared memory before it sleeps: about what sleeping and waking cost.
constexpr nanoseconds kSpin = 20us;
/// For what a rank said through another of its connections than the one whose end was seen.
constexpr nanoseconds kLastWords = 100ms;

int milliseconds_until(Instant deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - trainer_now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

/// Tells the processor that this is a loop that waits.
void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Exchange::Exchange(Rank self, std::vector<std::unique_ptr<Link>> links,
                   std::shared_ptr<AbortFlag> abort, std::string name)
    : self_(self), links_(std::move(links)), abort_(std::move(abort)), progress_(links_.size()) {
  everybody_.name = std::move(name);
  everybody_.self = self.value;
  for (std::uint32_t rank = 0; rank < links_.size(); ++rank) {
    const auto& link = links_[rank];
    everybody_.members.push_back(Rank{rank});
    names_.push_back(link ? link->name() : "this rank");
    spins_ = spins_ || (link && link->is_shared_memory());
  }
}

std::size_t Exchange::Progress::may_change() const {
  const std::size_t left = to_receive - received;
  if (!in_place) return left;
  return std::min(left, std::max(sent, kFrameBytes) - received) / sizeof(float) * sizeof(float);
}

Wants Exchange::Progress::wants() const {
  return {receiving() && (received < kFrameBytes || may_change() > 0), sending()};
}

CommResult<void> Exchange::run(const Stage& stage, std::span<const Transfer> transfers) {
  prepare(stage, transfers);
  while (true) {
    if (auto moved = advance_all(stage, transfers); !moved) return moved;
    if (auto going_on = ended(stage); !going_on) return going_on;
    if (finished(group_of(stage))) return {};
    if (auto woken = wait(stage); !woken) return woken;
  }
}

/// The next places, at most `turn` bytes of them.
template <class Byte>
std::size_t Exchange::fill(std::span<iovec> parts, const Pieces<Byte>& pieces, Place place,
                           std::size_t turn) {
  std::size_t used = 0, bytes = 0;
  while (used < parts.size() && bytes < turn && place.piece < pieces.parts().size()) {
    const auto rest = pieces.parts()[place.piece].subspan(place.offset);
    const std::size_t length = std::min(rest.size(), turn - bytes);
    // Nothing that is sent is written through this pointer; iovec only has no const.
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
  const Group& group = group_of(stage);
  for (Progress& progress : progress_) progress = Progress();
  for (std::uint32_t member = 0; member < group.size(); ++member) {
    if (member == group.self) continue;
    const Transfer& transfer = transfers[member];
    Progress& progress = progress_[group.members[member].value];
    if (transfer.send) {
      progress.out_frame = encode(Frame{stage.operation, group.number, stage.phase, stage.sequence,
                                        transfer.send->size(), stage.total});
      progress.to_send = kFrameBytes + transfer.send->size();
    }
    if (transfer.receive) progress.to_receive = kFrameBytes + transfer.receive->size();
    progress.in_place = transfer.in_place;
  }
}

bool Exchange::finished(const Group& group) const {
  return std::ranges::all_of(group.members,
                             [this](Rank rank) { return progress_[rank.value].idle(); });
}

CommResult<void> Exchange::advance_all(const Stage& stage, std::span<const Transfer> transfers) {
  const Group& group = group_of(stage);
  bool moved = true;
  while (moved && !abort_->is_set()) {
    moved = false;
    for (std::uint32_t member = 0; member < group.size(); ++member) {
      const std::uint32_t rank = group.members[member].value;
      if (progress_[rank].wants().send) {
        const auto sent = advance_send(stage, rank, transfers[member]);
        if (!sent) return tl::unexpected(sent.error());
        moved = moved || *sent;
      }
      if (progress_[rank].wants().receive) {
        const auto received = advance_receive(stage, rank, transfers[member]);
        if (!received) return tl::unexpected(received.error());
        moved = moved || *received;
      }
    }
  }
  return {};
}

CommResult<bool> Exchange::advance_send(const Stage& stage, std::uint32_t rank,
                                        const Transfer& transfer) {
  Progress& progress = progress_[rank];
  Link& link = *links_[rank];
  std::array<iovec, kPartsMax> parts{};
  std::size_t used = 0;
  const std::size_t frame_left = kFrameBytes - std::min(progress.sent, kFrameBytes);
  if (frame_left > 0) parts[used++] = {progress.out_frame.data() + progress.sent, frame_left};
  used +=
      fill(std::span(parts).subspan(used), *transfer.send, progress.send_place, link.turn_bytes());
  const auto count = link.send(std::span(parts).first(used));
  if (!count) {
    if (const auto words = last_words(rank)) return tl::unexpected(left(stage, rank, *words));
    return tl::unexpected(lost(stage, rank, count.error()));
  }
  progress.sent += *count;
  move_on(progress.send_place, *transfer.send, *count - std::min(*count, frame_left));
  bytes_sent_ += *count;
  return *count > 0;
}

std::optional<Leaving> Exchange::last_words(std::uint32_t rank) {
  Progress& progress = progress_[rank];
  const Instant deadline = trainer_now() + kLastWords;
  while (progress.received < kFrameBytes) {
    const std::size_t rest = kFrameBytes - progress.received;
    const iovec part{progress.in_frame.data() + progress.received, rest};
    const auto count = links_[rank]->receive({&part, 1});
    if (!count || (*count == 0 && !await_more(rank, deadline))) return std::nullopt;
    progress.received += *count;
  }
  return progress.received == kFrameBytes ? decode_leaving(progress.in_frame) : std::nullopt;
}

bool Exchange::await_more(std::uint32_t rank, Instant deadline) const {
  if (!links_[rank]->has_several_connections() || trainer_now() >= deadline) return false;
  std::vector<pollfd> polled = {{abort_->fd(), POLLIN, 0}, {closed_.fd(), POLLIN, 0}};
  links_[rank]->add_polls({true, false}, polled);
  static_cast<void>(::poll(polled.data(), polled.size(), milliseconds_until(deadline)));
  return polled[0].revents == 0 && polled[1].revents == 0;
}

CommResult<bool> Exchange::advance_receive(const Stage& stage, std::uint32_t rank,
                                           const Transfer& transfer) {
  Progress& progress = progress_[rank];
  const bool in_frame = progress.received < kFrameBytes;
  Moved count = 0;
  if (in_frame) {
    const iovec part{progress.in_frame.data() + progress.received, kFrameBytes - progress.received};
    count = links_[rank]->receive({&part, 1});
  } else {
    count = receive_payload(rank, transfer);
  }
  if (!count) return tl::unexpected(lost(stage, rank, count.error()));
  progress.received += *count;
  if (!in_frame) move_on(progress.receive_place, *transfer.receive, *count);
  if (in_frame && progress.received == kFrameBytes) {
    if (auto right = check_frame(stage, rank, transfer); !right) {
      return tl::unexpected(right.error());
    }
  }
  return *count > 0;
}

Moved Exchange::receive_payload(std::uint32_t rank, const Transfer& transfer) {
  const Progress& progress = progress_[rank];
  Link& link = *links_[rank];
  const std::size_t most = std::min(link.turn_bytes(), progress.may_change());
  if (transfer.adds) {
    const Place place = progress.receive_place;
    const auto rest = transfer.receive->parts()[place.piece].subspan(place.offset);
    auto* const values = reinterpret_cast<float*>(rest.data());  // floats, says the transfer
    return link.receive_adding({values, std::min(rest.size(), most) / sizeof(float)});
  }
  std::array<iovec, kPartsMax> parts{};
  const std::size_t used = fill(std::span(parts), *transfer.receive, progress.receive_place, most);
  return link.receive(std::span(parts).first(used));
}

CommResult<void> Exchange::check_frame(const Stage& stage, std::uint32_t rank,
                                       const Transfer& transfer) {
  const FrameBytes& bytes = progress_[rank].in_frame;
  if (const auto leaving = decode_leaving(bytes)) {
    return tl::unexpected(left(stage, rank, *leaving));
  }
  const auto frame = decode_frame(bytes);
  const Frame expected{stage.operation, group_of(stage).number,   stage.phase,
                       stage.sequence,  transfer.receive->size(), stage.total};
  if (frame == expected) return {};
  return tl::unexpected(mismatch(stage, rank, expected, frame));
}

CommResult<void> Exchange::wait(const Stage& stage) {
  if (spins_ && comes_soon(group_of(stage)) && trainer_now() < stage.deadline) return {};
  return wait_for_sockets(stage);
}

bool Exchange::comes_soon(const Group& group) const {
  const auto may_move = [this](Rank rank) {
    const Progress& progress = progress_[rank.value];
    return !progress.idle() && links_[rank.value]->can_move(progress.wants());
  };
  // What comes through a socket would wait for nothing meanwhile.
  const bool all_shared = std::ranges::all_of(group.members, [this](Rank rank) {
    return progress_[rank.value].idle() || links_[rank.value]->is_shared_memory();
  });
  if (!all_shared) return false;
  const Instant end = trainer_now() + kSpin;
  do {
    if (std::ranges::any_of(group.members, may_move)) return true;
    if (abort_->is_set() || closed_.is_set()) return true;
    pause_briefly();
  } while (trainer_now() < end);
  return false;
}

CommResult<void> Exchange::wait_for_sockets(const Stage& stage) {
  const int limit = list_sockets() ? milliseconds_until(stage.deadline) : 0;
  const int ready = ::poll(polled_.data(), polled_.size(), limit);
  const int error = errno;
  note_what_happened(ready > 0);
  if (ready < 0 && error != EINTR) {
    return tl::unexpected(CommFailure{FailureKind::local,
                                      {std::error_code(error, std::generic_category()),
                                       "waiting for the other ranks in " + sentence_of(stage)},
                                      std::nullopt});
  }
  for (const auto& link : polled_links_) {
    if ((link.happened & (POLLRDHUP | POLLHUP | POLLERR)) == 0) continue;
    if (!progress_[link.rank].idle()) continue;
    if (auto ignored = on_departure(stage, link.rank); !ignored) return ignored;
  }
  if (trainer_now() >= stage.deadline) return tl::unexpected(late(stage));
  return {};
}

bool Exchange::list_sockets() {
  polled_.assign({{abort_->fd(), POLLIN, 0}, {closed_.fd(), POLLIN, 0}});
  polled_links_.clear();
  bool waits = true;
  // All links of the mesh: a death among them ends the wait of every group.
  for (std::uint32_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank] || progress_[rank].departed) continue;
    const Wants wants = progress_[rank].wants();
    auto& polled = polled_links_.emplace_back(PolledLink{rank, polled_.size(), 0, 0});
    links_[rank]->add_polls(wants, polled_);
    polled.end = polled_.size();
    waits = links_[rank]->begin_wait(wants) && waits;
  }
  return waits;
}

void Exchange::note_what_happened(bool anything) {
  for (auto& link : polled_links_) {
    for (std::size_t i = link.first; anything && i < link.end; ++i) {
      link.happened = static_cast<short>(link.happened | polled_[i].revents);
    }
    links_[link.rank]->end_wait(link.happened);
  }
}

CommResult<void> Exchange::on_departure(const Stage& stage, std::uint32_t rank) {
  FrameBytes next{};
  auto count = links_[rank]->peek(next);
  const Instant deadline = trainer_now() + kLastWords;
  while (count && *count > 0 && *count < kFrameBytes && await_more(rank, deadline)) {
    count = links_[rank]->peek(next);
  }
  const auto words = count && *count == kFrameBytes ? decode_leaving(next) : std::nullopt;
  if (words) return tl::unexpected(left(stage, rank, *words));
  // Without last words it may have been done with everything, but a member of the group only after
  // the last exchange.
  const bool is_needed = !stage.last && std::ranges::count(group_of(stage).members, Rank{rank}) > 0;
  if (!count && is_needed) return tl::unexpected(lost(stage, rank, count.error()));
  progress_[rank].departed = true;
  return {};
}

bool Exchange::somebody_has_left() const {
  std::vector<pollfd> ends;
  for (const auto& link : links_) {
    if (link) ends.push_back({link->fd(), POLLRDHUP, 0});
  }
  return !ends.empty() && ::poll(ends.data(), static_cast<nfds_t>(ends.size()), 0) > 0;
}

void Exchange::leave(const CommFailure& failure) {
  FrameBytes words = encode(Leaving{failure.kind, failure.suspect});
  for (std::uint32_t rank = 0; rank < links_.size(); ++rank) {
    if (!links_[rank]) continue;
    // In the middle of a message the words would be taken for its payload.
    const bool between_messages =
        progress_[rank].sent == 0 || progress_[rank].sent == progress_[rank].to_send;
    for (std::size_t said = 0; between_messages && said < words.size();) {
      const iovec rest{words.data() + said, words.size() - said};
      const auto count = links_[rank]->send({&rest, 1});
      if (!count || *count == 0) break;
      said += *count;
    }
    links_[rank].reset();
  }
}

void Exchange::disconnect() {
  for (auto& link : links_) link.reset();
}

}  // namespace dlaunch::comm
