// Cuts a byte stream into frames: 4-byte big-endian length, then the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dlaunch::protocol {

/// The header and the message, ready to be sent. Aborts above kFrameBytesMax: our own messages are
/// bounded.
[[nodiscard]] std::string frame(std::string_view message);

/// Owned by one connection. Feed bytes as they come, take whole messages out.
class FrameReader {
 public:
  /// `message_bytes_max`: the bound in force, raised after the peer has proved itself.
  explicit FrameReader(std::size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  void set_limit(std::size_t message_bytes_max) { message_bytes_max_ = message_bytes_max; }
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// nullopt: not complete yet. An error (empty or too long) ends the connection.
  [[nodiscard]] Result<std::optional<std::string>> next();
  /// Instead of both: takes what belongs to the next message from the front of `bytes`. The answer
  /// is a part of `bytes` where that holds all of it; it is valid until the next call.
  [[nodiscard]] Result<std::optional<std::string_view>> cut(std::string_view& bytes);

 private:
  [[nodiscard]] Result<std::size_t> length_in(std::string_view header) const;

  std::size_t message_bytes_max_;
  std::string buffer_;
  std::size_t taken_ = 0;  ///< of the buffer, by `next`
  bool was_cut_ = false;   ///< the buffer is the message that `cut` answered last
};

}  // namespace dlaunch::protocol
