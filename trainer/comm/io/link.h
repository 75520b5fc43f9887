// One rank's way to another: a stream of bytes in both directions that never waits.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/io/file_descriptor.h"

namespace dlaunch::comm {

/// How many bytes were moved, 0: none for now. The error says why none ever will be again: errno,
/// or 0 if the other side has closed.
using Moved = tl::expected<std::size_t, int>;

/// What somebody waits for on a link.
struct Wants {
  bool receive = false;
  bool send = false;
};

/// Used by one thread. Every kind has a socket of its own, handshake done: its end is the end of
/// the other rank.
class Link {
 public:
  Link(FileDescriptor socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] virtual Moved send(std::span<const iovec> parts) = 0;
  [[nodiscard]] virtual Moved receive(std::span<const iovec> parts) = 0;
  /// Adds the next floats of the stream to the first of `into`; whole ones only.
  [[nodiscard]] virtual Moved receive_adding(std::span<float> into) = 0;
  /// Copies the next bytes and leaves them in the stream.
  [[nodiscard]] virtual Moved peek(std::span<std::byte> bytes) = 0;
  /// Moved for one rank before the next has its turn, so that a fast one does not starve the rest.
  [[nodiscard]] virtual std::size_t turn_bytes() const = 0;

  /// What to poll for, at least one entry; a rank that goes is always part of it.
  virtual void add_polls(Wants wants, std::vector<pollfd>& polls) const = 0;
  /// Cheap enough to be asked again and again for some microseconds. Links that cannot know say no.
  [[nodiscard]] virtual bool can_move(Wants wants) const = 0;
  /// Before poll(). False: something can be moved already, so do not wait.
  [[nodiscard]] virtual bool begin_wait(Wants wants) = 0;
  /// After each `begin_wait`, with what poll() said of all entries, 0: nothing.
  virtual void end_wait(short happened) = 0;
  /// What was said before the end that was seen may still be on its way, through another
  /// connection.
  [[nodiscard]] virtual bool has_several_connections() const { return false; }
  [[nodiscard]] virtual bool is_shared_memory() const = 0;

  /// "rank 3 at 10.0.0.3:4000"
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int fd() const { return socket_.get(); }
  /// The link is of no use afterwards.
  [[nodiscard]] FileDescriptor take_socket() { return std::move(socket_); }

 private:
  FileDescriptor socket_;
  std::string name_;
};

}  // namespace dlaunch::comm
