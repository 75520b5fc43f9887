// Brings one generation's connections up: dials, answers, keeps strangers out, all in one poll.
#pragma once

#include <poll.h>

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

/// Connections that were accepted and have not proved the token; the oldest makes room, so a
/// crowd of silent strangers cannot keep a rank out, which needs milliseconds only.
constexpr std::size_t kHalfOpenMax = 128;
/// A dialled or dialling connection that is slower than this is given up (and dialled again).
constexpr milliseconds kHandshakeLimit = 5s;
/// Between two dials of the same rank: doubles from the first to the last.
constexpr milliseconds kRedialFirst = 10ms;
constexpr milliseconds kRedialLast = 500ms;

/// To another rank, handshake done; this rank's own has no socket.
struct Connection {
  FileDescriptor socket;
  std::string name;  ///< "rank 3 at 10.0.0.3:4000"
};

/// Used once, on one thread.
class MeshConnector {
 public:
  /// `endpoints[r]` is rank r's.
  MeshConnector(int listener, const MeshIdentity& identity, std::vector<MeshEndpoint> endpoints,
                const AbortFlag& abort, milliseconds limit);

  /// One connection per rank.
  [[nodiscard]] CommResult<std::vector<Connection>> run();

 private:
  struct Attempt {
    FileDescriptor socket;
    Handshake handshake;
    std::optional<Rank> dialled;  ///< empty: the other side came to us
    bool connecting = false;
    Instant deadline;
    std::vector<std::byte> output;
    std::vector<std::byte> input;
    bool over = false;
  };
  struct Dial {
    bool under_way = false;
    Instant next;
    milliseconds wait = kRedialFirst;
    std::string last_trouble = "not tried yet";
  };

  [[nodiscard]] bool complete() const { return missing_ == 0; }
  [[nodiscard]] bool is_watched(std::uint32_t rank) const {
    return links_[rank].socket.is_open() && !has_last_words_[rank];
  }
  void start_dials(Instant now);
  /// Fills polled_: the abort, the listener, the attempts in order, the links in order of ranks.
  void list_sockets();
  [[nodiscard]] Instant next_wake() const;
  [[nodiscard]] CommResult<void> wait_for_sockets(Instant now);
  [[nodiscard]] CommResult<void> accept_waiting(Instant now);
  void make_room();
  void advance(Attempt& attempt, short events);
  void read_message(Attempt& attempt);
  void write_output(Attempt& attempt);
  void establish(Attempt& attempt);
  void redial_later(std::uint32_t rank, std::string trouble);
  void give_up(Attempt& attempt, std::string trouble);
  /// A link that stood and is closed again: the other side dials anew, or we do.
  void on_link_closed(std::uint32_t rank);
  void sweep(Instant now);
  [[nodiscard]] CommFailure late() const;

  const int listener_;
  const MeshIdentity& identity_;
  const std::vector<MeshEndpoint> endpoints_;
  const AbortFlag& abort_;
  const milliseconds limit_;
  Instant deadline_;
  std::vector<Connection> links_;
  std::vector<Dial> dials_;           ///< by rank; only those above ours are used
  std::vector<bool> has_last_words_;  ///< by rank: closed, with something still to be read
  std::list<Attempt> attempts_;
  std::vector<pollfd> polled_;
  std::uint32_t missing_;
};

}  // namespace dlaunch::comm
