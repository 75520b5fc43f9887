#include "trainer/comm/io/memory_sharing.h"

#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "trainer/comm/byte_order.h"
#include "trainer/comm/io/exchange.h"
#include "trainer/comm/io/shared_memory.h"
#include "trainer/comm/io/shm_link.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

/// pid 8, descriptor 8, bytes of a ring 8 (0: nothing is offered), nonce 32.
using Offer = std::array<std::byte, 56>;
/// 1: opened, 0: not.
using Answer = std::array<std::byte, 8>;

/// What passes between this rank and one neighbour.
struct Dealing {
  Rank neighbour;
  bool offers = false;  ///< this rank does; it is the lower one
  Offer offer{};
  Answer answer{};
  std::size_t ring_bytes = 0;
  std::optional<SharedMemory> memory;
  std::string refused;  ///< why there is none
};

ShmNonce fresh_nonce() {
  ShmNonce nonce{};
  const int made =
      ::RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size()));
  DL_CHECK(made == 1, "the system gives random bytes");
  return nonce;
}

void make_offer(Dealing& dealing, std::size_t ring_bytes) {
  auto memory = SharedMemory::create(ShmLink::memory_bytes(ring_bytes));
  if (!memory) {
    dealing.refused = memory.error().text();
    return;
  }
  const ShmNonce nonce = fresh_nonce();
  ShmLink::prepare(*memory, nonce);
  const std::span<std::byte> offer(dealing.offer);
  put(offer, 0, static_cast<std::uint64_t>(::getpid()));
  put(offer, 8, static_cast<std::uint64_t>(memory->descriptor()));
  put(offer, 16, static_cast<std::uint64_t>(ring_bytes));
  std::ranges::copy(nonce, offer.subspan(24).begin());
  dealing.ring_bytes = ring_bytes;
  dealing.memory = std::move(*memory);
}

void take_offer(Dealing& dealing) {
  const std::span<const std::byte> offer(dealing.offer);
  const auto ring_bytes = get<std::uint64_t>(offer, 16);
  if (ring_bytes == 0) {
    dealing.refused = "it offers none";
    return;
  }
  if (ring_bytes < kShmRingBytesMin || ring_bytes > kShmRingBytesMax ||
      (ring_bytes & (ring_bytes - 1)) != 0) {
    dealing.refused = "it offers what cannot be";
    return;
  }
  auto memory = SharedMemory::open(get<std::uint64_t>(offer, 0), get<std::uint64_t>(offer, 8),
                                   ShmLink::memory_bytes(ring_bytes));
  ShmNonce nonce{};
  std::ranges::copy(offer.subspan(24), nonce.begin());
  if (!memory) {
    dealing.refused = memory.error().text();
  } else if (!ShmLink::has_nonce(*memory, nonce)) {
    dealing.refused = "what it offers cannot be seen from here (another container)";
  } else {
    dealing.ring_bytes = ring_bytes;
    dealing.memory = std::move(*memory);
    put(std::span<std::byte>(dealing.answer), 0, std::uint64_t{1});
  }
}

/// The offers and then the answers, as two exchanges with the abort, deaths and limits of any
/// other.
CommResult<void> deal(Exchange& exchange, std::vector<Dealing>& dealings, bool willing,
                      Instant deadline) {
  if (dealings.empty()) return {};
  std::vector<Transfer> transfers(exchange.everybody().size());
  Stage stage;
  stage.operation = Operation::share_memory;
  stage.sequence = 1;
  stage.deadline = deadline;
  stage.last = false;
  for (Dealing& dealing : dealings) {
    if (dealing.offers && willing) make_offer(dealing, shm_ring_bytes(dealings.size()));
    Transfer& transfer = transfers[dealing.neighbour.value];
    if (dealing.offers) {
      transfer.send = std::span<const std::byte>(dealing.offer);
    } else {
      transfer.receive = std::span<std::byte>(dealing.offer);
    }
  }
  if (auto moved = exchange.run(stage, transfers); !moved) return moved;
  transfers.assign(transfers.size(), {});
  stage.phase = 1;
  stage.last = true;
  for (Dealing& dealing : dealings) {
    if (!dealing.offers && willing) take_offer(dealing);
    Transfer& transfer = transfers[dealing.neighbour.value];
    if (dealing.offers) {
      transfer.receive = std::span<std::byte>(dealing.answer);
    } else {
      transfer.send = std::span<const std::byte>(dealing.answer);
    }
  }
  if (auto moved = exchange.run(stage, transfers); !moved) return moved;
  for (Dealing& dealing : dealings) {
    if (!dealing.offers || !dealing.memory) continue;
    dealing.memory->close_descriptor();
    if (get<std::uint64_t>(dealing.answer, 0) == 1) continue;
    dealing.memory.reset();
    dealing.refused = "it could not open it";
  }
  return {};
}

std::string sentence_of(std::size_t others, const std::vector<Dealing>& dealings,
                        const Links& links) {
  std::size_t sharing = 0;
  std::string refusals;
  for (const Dealing& dealing : dealings) {
    if (links[dealing.neighbour.value]->is_shared_memory()) {
      ++sharing;
    } else if (refusals.empty()) {
      refusals = "; no memory is shared with " + links[dealing.neighbour.value]->name() +
                 (dealing.refused.empty() ? "" : ": " + dealing.refused);
    }
  }
  const std::size_t refused = dealings.size() - sharing;
  if (refused > 1) refusals += ", and with " + std::to_string(refused - 1) + " more of this host";
  return std::to_string(others) + " other ranks, " + std::to_string(sharing) +
         " of them through shared memory" + refusals;
}

}  // namespace

CommResult<SharedLinks> share_memory(Rank self, Links links, std::span<const Rank> neighbours,
                                     bool willing, std::shared_ptr<AbortFlag> abort,
                                     milliseconds limit) {
  const std::size_t others = links.size() - 1;
  std::vector<Dealing> dealings(neighbours.size());
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    dealings[i].neighbour = neighbours[i];
    dealings[i].offers = self < neighbours[i];
    if (!willing) dealings[i].refused = "it is turned off";
  }
  Exchange exchange(self, std::move(links), std::move(abort));
  if (auto done = deal(exchange, dealings, willing, trainer_now() + limit); !done) {
    exchange.leave(done.error());
    return tl::unexpected(done.error());
  }
  SharedLinks result;
  result.links = exchange.take_links();
  for (Dealing& dealing : dealings) {
    if (!dealing.memory) continue;
    auto& link = result.links[dealing.neighbour.value];
    std::string name = link->name();
    link = std::make_unique<ShmLink>(link->take_socket(), std::move(name),
                                     std::move(*dealing.memory), dealing.ring_bytes,
                                     dealing.offers ? ShmSide::creator : ShmSide::opener);
  }
  result.sentence = sentence_of(others, dealings, result.links);
  return result;
}

}  // namespace dlaunch::comm
