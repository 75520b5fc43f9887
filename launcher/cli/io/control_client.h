// One conversation with a controller over its control socket: lines of JSON, with deadlines.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "base/time.h"

namespace dlaunch::launcher::cli {

/// Owns the socket. Not for several threads.
class ControlClient {
 public:
  /// The longest line taken from a controller: a status of 65,536 ranks is below.
  static constexpr std::size_t kLineBytesMax = 64 * 1024 * 1024;

  /// Connects to `<state_directory>/control.sock`; no waiting: a Unix socket answers at once.
  [[nodiscard]] static Result<ControlClient> connect(const std::string& state_directory);

  [[nodiscard]] Result<void> send(const nlohmann::json& request);
  /// A whole line that has been read already; nullopt: none.
  [[nodiscard]] Result<std::optional<nlohmann::json>> take();
  /// Reads what is there without blocking; false: the controller closed.
  [[nodiscard]] Result<bool> read_some();
  /// Waits for the next line at most `limit`; an error when the controller closes first.
  [[nodiscard]] Result<nlohmann::json> receive(milliseconds limit);
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  explicit ControlClient(FileDescriptor socket) : socket_(std::move(socket)) {}
  FileDescriptor socket_;
  std::string buffer_;
  std::size_t searched_ = 0;
};

/// A controller that lives answers within this, however busy it is.
constexpr milliseconds kAnswerLimit = 5s;

/// A time limit as poll counts it: at most INT_MAX.
[[nodiscard]] int poll_milliseconds(milliseconds limit);

/// One request, one answer.
[[nodiscard]] Result<nlohmann::json> ask(const std::string& state_directory,
                                         const nlohmann::json& request, milliseconds limit);

}  // namespace dlaunch::launcher::cli
