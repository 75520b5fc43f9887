#include "trainer/comm/io/mesh_connector.h"

#include <openssl/rand.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

Nonce fresh_nonce() {
  Nonce nonce{};
  const int made =
      ::RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size()));
  DL_CHECK(made == 1, "the system gives random bytes");
  return nonce;
}

std::string name_of(const MeshEndpoint& endpoint) {
  return "rank " + std::to_string(endpoint.rank.value) + " at " + endpoint.address + ":" +
         std::to_string(endpoint.port);
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

std::string text_of(int error) { return std::generic_category().message(error); }

}  // namespace

MeshConnector::MeshConnector(int listener, const MeshIdentity& identity,
                             std::vector<MeshEndpoint> endpoints, const AbortFlag& abort,
                             milliseconds limit)
    : listener_(listener),
      identity_(identity),
      endpoints_(std::move(endpoints)),
      abort_(abort),
      limit_(limit),
      deadline_(trainer_now() + limit) {
  const auto& own = endpoints_[identity.rank.value].address;
  for (const MeshEndpoint& endpoint : endpoints_) {
    // Within a host it is memory that carries much; the socket only wakes.
    std::uint32_t count = endpoint.address == own ? 1 : identity.connections;
    if (endpoint.rank == identity.rank) count = 0;
    peers_.push_back({name_of(endpoint), std::vector<Line>(count), false});
    if (endpoint.rank < identity.rank) half_open_max_ += count;
  }
}

CommResult<std::vector<Connections>> MeshConnector::run() {
  while (!complete()) {
    const Instant now = trainer_now();
    if (abort_.is_set()) {
      return tl::unexpected(CommFailure{FailureKind::aborted,
                                        {{}, "connecting the mesh was ended: " + abort_.reason()},
                                        std::nullopt});
    }
    if (now >= deadline_) return tl::unexpected(late());
    start_dials(now);
    if (auto woken = wait_for_sockets(now); !woken) return tl::unexpected(woken.error());
    sweep(trainer_now());
  }
  std::vector<Connections> done;
  for (Peer& peer : peers_) {
    auto& [sockets, name] = done.emplace_back();
    name = std::move(peer.name);
    for (Line& line : peer.lines) sockets.push_back(std::move(line.socket));
  }
  return done;
}

void MeshConnector::start_dials(Instant now) {
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!is_ours_to_dial(rank)) continue;
    for (std::uint32_t i = 0; i < peers_[rank].lines.size(); ++i) {
      const Line& line = peers_[rank].lines[i];
      if (!line.socket.is_open() && !line.under_way && now >= line.next) dial({rank, i}, now);
    }
  }
}

void MeshConnector::dial(Place place, Instant now) {
  const MeshEndpoint& to = endpoints_[place.rank];
  auto socket = start_connect(to.address, to.port);
  if (!socket) return redial_later(place, socket.error().code.message());
  line(place).under_way = true;
  Handshake handshake = Handshake::dial(identity_, to.rank, fresh_nonce(), place.connection);
  attempts_.push_back({std::move(*socket),
                       std::move(handshake),
                       place,
                       true,
                       now + kHandshakeLimit,
                       {},
                       {},
                       false});
  attempts_.back().output = attempts_.back().handshake.take_output();
}

void MeshConnector::list_sockets() {
  polled_.assign({{abort_.fd(), POLLIN, 0}, {listener_, POLLIN, 0}});
  for (const Attempt& attempt : attempts_) {
    const bool writes = attempt.connecting || !attempt.output.empty();
    const short events = writes ? POLLOUT : POLLIN;
    polled_.push_back({attempt.socket.get(), events, 0});
  }
  watched_.clear();
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (peers_[rank].has_last_words) continue;
    for (std::uint32_t i = 0; i < peers_[rank].lines.size(); ++i) {
      const Line& its = peers_[rank].lines[i];
      if (!its.socket.is_open() || its.ended) continue;
      watched_.push_back({rank, i});
      polled_.push_back({its.socket.get(), POLLRDHUP, 0});
    }
  }
}

Instant MeshConnector::next_wake() const {
  Instant wake = deadline_;
  for (const Attempt& attempt : attempts_) wake = std::min(wake, attempt.deadline);
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!is_ours_to_dial(rank)) continue;
    for (const Line& line : peers_[rank].lines) {
      if (!line.socket.is_open() && !line.under_way) wake = std::min(wake, line.next);
    }
  }
  return wake;
}

CommResult<void> MeshConnector::wait_for_sockets(Instant now) {
  list_sockets();
  const auto left = std::chrono::ceil<milliseconds>(next_wake() - now).count();
  const auto timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
  const int ready = ::poll(polled_.data(), polled_.size(), timeout);
  if (ready <= 0) return {};

  // What stands first: an attempt may put a new socket into its place.
  auto polled = polled_.begin() + 2 + static_cast<std::ptrdiff_t>(attempts_.size());
  for (const Place place : watched_) {
    if (polled->revents != 0) on_closed(place);
    ++polled;
  }
  polled = polled_.begin() + 2;
  for (Attempt& attempt : attempts_) {
    if (polled->revents != 0) advance(attempt, polled->revents);
    ++polled;
  }
  if (polled_[1].revents != 0) return accept_waiting(now);
  return {};
}

CommResult<void> MeshConnector::accept_waiting(Instant now) {
  for (std::size_t taken = 0; taken < kHalfOpenMax; ++taken) {
    auto socket = accept_one(listener_);
    if (!socket) {
      return tl::unexpected(CommFailure{FailureKind::local, socket.error(), std::nullopt});
    }
    if (!socket->is_open()) break;
    make_room();
    attempts_.push_back({std::move(*socket),
                         Handshake::answer(identity_, fresh_nonce()),
                         std::nullopt,
                         false,
                         now + kHandshakeLimit,
                         {},
                         {},
                         false});
  }
  return {};
}

void MeshConnector::make_room() {
  const auto is_half_open = [](const Attempt& attempt) {
    return !attempt.dialled && !attempt.over;
  };
  const auto half_open = std::ranges::count_if(attempts_, is_half_open);
  if (static_cast<std::size_t>(half_open) < half_open_max_) return;
  give_up(*std::ranges::find_if(attempts_, is_half_open), "too many others");
}

void MeshConnector::advance(Attempt& attempt, short events) {
  if (attempt.over) return;
  if (attempt.connecting) {
    const auto outcome = connect_outcome(attempt.socket);
    if (!outcome) return give_up(attempt, outcome.error().code.message());
    if ((events & POLLOUT) == 0) return;
    attempt.connecting = false;
  }
  write_output(attempt);
  if (attempt.over || !attempt.output.empty()) return;
  read_message(attempt);
  write_output(attempt);
  if (attempt.over || !attempt.output.empty()) return;
  if (attempt.handshake.established()) return establish(attempt);
  if (attempt.handshake.refused()) give_up(attempt, std::string(attempt.handshake.reason()));
}

void MeshConnector::read_message(Attempt& attempt) {
  while (attempt.handshake.wanted_bytes() > 0) {
    const std::size_t wanted = attempt.handshake.wanted_bytes();
    const std::size_t before = attempt.input.size();
    attempt.input.resize(wanted);
    const auto count =
        ::recv(attempt.socket.get(), attempt.input.data() + before, wanted - before, MSG_DONTWAIT);
    const int error = errno;
    attempt.input.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && would_block(error)) return;
    if (count < 0) return give_up(attempt, text_of(error));
    if (count == 0) return give_up(attempt, "it closed the connection during the handshake");
    if (attempt.input.size() < wanted) return;
    attempt.handshake.receive(std::exchange(attempt.input, {}));
    const auto more = attempt.handshake.take_output();
    attempt.output.insert(attempt.output.end(), more.begin(), more.end());
    if (!attempt.output.empty()) return;
  }
}

void MeshConnector::write_output(Attempt& attempt) {
  if (attempt.over || attempt.output.empty()) return;
  const auto count = ::send(attempt.socket.get(), attempt.output.data(), attempt.output.size(),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0 && would_block(errno)) return;
  if (count < 0) return give_up(attempt, text_of(errno));
  attempt.output.erase(attempt.output.begin(), attempt.output.begin() + count);
}

void MeshConnector::establish(Attempt& attempt) {
  const Place place{attempt.handshake.other_rank().value, attempt.handshake.connection()};
  Peer& peer = peers_[place.rank];
  if (place.connection >= peer.lines.size()) return give_up(attempt, "it is one too many");
  attempt.over = true;
  if (peer.has_last_words) return;  // overtaken by them
  // A rank that dials again has lost the connection that we took for good.
  line(place).socket = std::move(attempt.socket);
  line(place).ended = false;
}

void MeshConnector::on_closed(Place place) {
  Peer& peer = peers_[place.rank];
  if (peer.has_last_words) return;  // another of its connections had them
  std::byte next{};
  const auto count = ::recv(line(place).socket.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
  // It has said something before it closed, so its mesh was complete: its words are for the first
  // operation, and it does not come again.
  if (count > 0) {
    peer.has_last_words = true;
    return;
  }
  // It may have found its mesh complete and gone, and the others are about to be heard of.
  if (peer.is_missing()) {
    line(place).ended = true;
  } else {
    become_missing(place);
  }
}

void MeshConnector::become_missing(Place place) {
  line(place).socket.reset();
  line(place).ended = false;
  redial_later(place, "it closed the connection");
}

void MeshConnector::redial_later(Place place, std::string trouble) {
  Line& its = line(place);
  its.under_way = false;
  its.last_trouble = std::move(trouble);
  its.next = trainer_now() + its.wait;
  its.wait = std::min(its.wait * 2, kRedialLast);
}

void MeshConnector::give_up(Attempt& attempt, std::string trouble) {
  attempt.over = true;
  attempt.socket.reset();
  if (!attempt.dialled) return;
  redial_later(*attempt.dialled, std::move(trouble));
  // It had not gone because its mesh was complete.
  const auto rank = attempt.dialled->rank;
  for (std::uint32_t i = 0; i < peers_[rank].lines.size(); ++i) {
    if (line({rank, i}).ended) become_missing({rank, i});
  }
}

void MeshConnector::sweep(Instant now) {
  for (Attempt& attempt : attempts_) {
    if (!attempt.over && now >= attempt.deadline) give_up(attempt, "it does not answer");
  }
  std::erase_if(attempts_, [](const Attempt& attempt) { return attempt.over; });
}

CommFailure MeshConnector::late() const {
  const auto found = std::ranges::find_if(peers_, &Peer::is_missing);
  const auto first = static_cast<std::uint32_t>(found - peers_.begin());
  const auto ranks = std::ranges::count_if(peers_, &Peer::is_missing);
  std::string doing = "connecting the mesh of " + std::to_string(identity_.world_size) +
                      " ranks within " + std::to_string(limit_.count()) + " ms: ";
  if (first < identity_.rank.value) {
    doing += found->name + " did not connect to this rank";
  } else {
    const auto line = std::ranges::find_if_not(found->lines, &Line::stands);
    doing += found->name + " could not be reached (" + line->last_trouble + ")";
  }
  if (ranks > 1) doing += ", and " + std::to_string(ranks - 1) + " more";
  return {FailureKind::timed_out, {{}, std::move(doing)}, Rank{first}};
}

}  // namespace dlaunch::comm
