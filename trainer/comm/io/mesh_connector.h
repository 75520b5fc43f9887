// Brings one generation's connections up: dials, answers, keeps strangers out, all in one poll.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "trainer/comm/failure.h"
#include "trainer/comm/handshake.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/comm/io/mesh.h"
#include "trainer/comm/io/socket.h"

namespace dlaunch::comm {

/// Connections that were accepted and have not proved the token, beside one for each that lower
/// ranks will make; the oldest makes room, so a crowd of silent strangers cannot keep a rank out,
/// which needs milliseconds only.
constexpr std::size_t kHalfOpenMax = 128;
/// A dialled or dialling connection that is slower than this is given up (and dialled again).
constexpr milliseconds kHandshakeLimit = 5s;
/// Between two dials of the same rank: doubles from the first to the last.
constexpr milliseconds kRedialFirst = 10ms;
constexpr milliseconds kRedialLast = 500ms;

/// With another rank, handshakes done, in their order; with this rank itself there are none.
struct Connections {
  std::vector<FileDescriptor> sockets;
  std::string name;  ///< "rank 3 at 10.0.0.3:4000"
};

/// Used once, on one thread.
class MeshConnector {
 public:
  /// `endpoints[r]` is rank r's.
  MeshConnector(int listener, const MeshIdentity& identity, std::vector<MeshEndpoint> endpoints,
                const AbortFlag& abort, milliseconds limit);

  /// By rank.
  [[nodiscard]] CommResult<std::vector<Connections>> run();

 private:
  /// Which connection with which rank.
  struct Place {
    std::uint32_t rank = 0;
    std::uint32_t connection = 0;
  };
  struct Attempt {
    FileDescriptor socket;
    Handshake handshake;
    std::optional<Place> dialled;  ///< empty: the other side came to us
    bool connecting = false;
    Instant deadline;
    std::vector<std::byte> output;
    std::vector<std::byte> input;
    bool over = false;
  };
  /// One connection: it stands, or it is dialled from the lower rank.
  struct Line {
    FileDescriptor socket;
    bool ended = false;  ///< closed by the other side before all of its connections stood
    bool under_way = false;
    Instant next;
    milliseconds wait = kRedialFirst;
    std::string last_trouble = "not tried yet";
    [[nodiscard]] bool stands() const { return socket.is_open(); }
  };

  struct Peer {
    std::string name;
    std::vector<Line> lines;
    bool has_last_words = false;  ///< closed, with something still to be read
    /// It has not left again, and not all connections with it stand.
    [[nodiscard]] bool is_missing() const {
      return !has_last_words && !std::ranges::all_of(lines, &Line::stands);
    }
  };

  [[nodiscard]] bool complete() const { return std::ranges::none_of(peers_, &Peer::is_missing); }
  [[nodiscard]] Line& line(Place place) { return peers_[place.rank].lines[place.connection]; }
  [[nodiscard]] bool is_ours_to_dial(std::uint32_t rank) const {
    return rank > identity_.rank.value && !peers_[rank].has_last_words;
  }
  void start_dials(Instant now);
  void dial(Place place, Instant now);
  /// Fills polled_: the abort, the listener, the attempts in order, what is watched in order.
  void list_sockets();
  [[nodiscard]] Instant next_wake() const;
  [[nodiscard]] CommResult<void> wait_for_sockets(Instant now);
  [[nodiscard]] CommResult<void> accept_waiting(Instant now);
  void make_room();
  void advance(Attempt& attempt, short events);
  void read_message(Attempt& attempt);
  void write_output(Attempt& attempt);
  void establish(Attempt& attempt);
  void redial_later(Place place, std::string trouble);
  void give_up(Attempt& attempt, std::string trouble);
  /// One that stood and is closed again: the other side dials anew, or we do.
  void on_closed(Place place);
  void become_missing(Place place);
  void sweep(Instant now);
  [[nodiscard]] CommFailure late() const;

  const int listener_;
  const MeshIdentity& identity_;
  const std::vector<MeshEndpoint> endpoints_;
  const AbortFlag& abort_;
  const milliseconds limit_;
  Instant deadline_;
  std::vector<Peer> peers_;  ///< by rank
  std::list<Attempt> attempts_;
  std::vector<pollfd> polled_;
  std::vector<Place> watched_;  ///< whose entries are the last of polled_
  std::size_t half_open_max_ = kHalfOpenMax;
};

}  // namespace dlaunch::comm
