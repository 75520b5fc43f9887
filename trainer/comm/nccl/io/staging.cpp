#include "trainer/comm/nccl/io/staging.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "trainer/comm/nccl/io/device_error.h"

namespace dlaunch::comm {

CommResult<Staging> Staging::open(std::shared_ptr<DeviceSession> session) {
  auto first = PinnedMemory::allocate(kStagingPieceBytes);
  if (!first) return tl::unexpected(first.error());
  auto second = PinnedMemory::allocate(kStagingPieceBytes);
  if (!second) return tl::unexpected(second.error());
  return Staging(std::move(session), {std::move(*first), {}}, {std::move(*second), {}});
}

CommResult<void> Staging::wait_for(const Piece& piece) {
  return piece.used.sequence == 0 ? session_->go_on() : session_->wait(piece.used);
}

CommResult<Ticket> Staging::copy(void* to, const void* from, std::size_t bytes,
                                 cudaMemcpyKind kind) {
  if (auto alive = session_->go_on(); !alive) return tl::unexpected(alive.error());
  std::string doing = "copy of " + std::to_string(bytes) + " bytes " +
                      (kind == cudaMemcpyHostToDevice ? "to" : "from") + " device " +
                      std::to_string(session_->settings().device);
  const auto begun = check_cuda(cudaMemcpyAsync(to, from, bytes, kind, session_->stream()), doing);
  if (!begun) return session_->fail(begun.error());
  return session_->mark(std::move(doing));
}

CommResult<Ticket> Staging::to_device(std::span<const std::byte> from, DeviceSpan to) {
  DL_CHECK(from.size() == to.bytes(), "as many bytes on the device as on the host");
  if (from.empty()) return session_->mark("copy of nothing to the device");
  auto* target = static_cast<std::byte*>(to.data);
  Ticket newest;
  for (std::size_t begin = 0, turn = 0; begin < from.size(); begin += kStagingPieceBytes, ++turn) {
    Piece& piece = pieces_[turn % pieces_.size()];
    const auto part = from.subspan(begin, std::min(kStagingPieceBytes, from.size() - begin));
    if (auto free = wait_for(piece); !free) return tl::unexpected(free.error());
    std::memcpy(piece.memory.bytes().data(), part.data(), part.size());
    const auto begun =
        copy(target + begin, piece.memory.bytes().data(), part.size(), cudaMemcpyHostToDevice);
    if (!begun) return begun;
    newest = piece.used = *begun;
  }
  return newest;
}

CommResult<void> Staging::from_device(DeviceSpan from, std::span<std::byte> to) {
  DL_CHECK(to.size() == from.bytes(), "as many bytes on the host as on the device");
  const auto* source = static_cast<const std::byte*>(from.data);
  const std::size_t count = (to.size() + kStagingPieceBytes - 1) / kStagingPieceBytes;
  const auto part = [&](std::size_t turn) {
    const std::size_t begin = turn * kStagingPieceBytes;
    return to.subspan(begin, std::min(kStagingPieceBytes, to.size() - begin));
  };
  // One more turn than pieces: each takes out what the turn before has asked for.
  for (std::size_t turn = 0; turn <= count; ++turn) {
    if (turn < count) {
      Piece& piece = pieces_[turn % pieces_.size()];
      if (auto free = wait_for(piece); !free) return free;
      const auto begun = copy(piece.memory.bytes().data(), source + turn * kStagingPieceBytes,
                              part(turn).size(), cudaMemcpyDeviceToHost);
      if (!begun) return tl::unexpected(begun.error());
      piece.used = *begun;
    }
    if (turn == 0) continue;
    const Piece& full = pieces_[(turn - 1) % pieces_.size()];
    if (auto come = session_->wait(full.used); !come) return come;
    const auto target = part(turn - 1);
    std::memcpy(target.data(), full.memory.bytes().data(), target.size());
  }
  return session_->go_on();
}

}  // namespace dlaunch::comm
