// What a control connection runs over: TLS today, the channel of an SSH session where an agent
// cannot dial back.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace dlaunch::rendezvous {

/// One reader and one writer at a time may run beside each other. Used on one thread.
class ByteStream {
 public:
  class Reader {
   public:
    virtual ~Reader() = default;
    /// There may be something to read, or an error: the stream has ended.
    virtual void on_readable(Result<void> ready) = 0;
  };

  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// At least one byte, into `buffer`, which lives until then. The peer's orderly end is an error.
  [[nodiscard]] virtual boost::asio::awaitable<Result<std::size_t>> read_some(
      std::span<char> buffer) = 0;
  /// What has come, as much as fits; 0: nothing, and `tell_when_readable` waits for more.
  [[nodiscard]] virtual Result<std::size_t> read_now(std::span<char> buffer) = 0;
  /// Calls `reader` once, later; it keeps this stream alive until then. No coroutine: of thousands
  /// of agents none is in a cache when it beats, and a call touches less memory.
  virtual void tell_when_readable(std::shared_ptr<Reader> reader) = 0;
  /// All of `bytes`, which live until then.
  [[nodiscard]] virtual boost::asio::awaitable<Result<void>> write(std::string_view bytes) = 0;
  /// True: all of `bytes` went without waiting. False: `write` with the same bytes must follow. Not
  /// while `write` runs.
  [[nodiscard]] virtual Result<bool> write_now(std::string_view bytes) = 0;
  /// Ends what runs with an error, at once and without a farewell. May be called again.
  virtual void close() = 0;
};

}  // namespace dlaunch::rendezvous
