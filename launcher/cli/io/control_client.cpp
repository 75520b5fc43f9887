#include "launcher/cli/io/control_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "launcher/controller/io/control_socket.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::cli {

Result<ControlClient> ControlClient::connect(const std::string& state_directory) {
  auto socket = controller::connect_to_controller(state_directory);
  if (!socket) return tl::unexpected(socket.error());
  return ControlClient(std::move(*socket));
}

Result<void> ControlClient::send(const nlohmann::json& request) {
  const auto line = protocol::json_text(request) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const auto count = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "sending a request to the controller");
    sent += static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::optional<nlohmann::json>> ControlClient::take() {
  const auto end = buffer_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    if (buffer_.size() > kLineBytesMax) {
      return failure(std::errc::message_size, "reading a line of the controller");
    }
    return std::optional<nlohmann::json>{};
  }
  auto value = protocol::read_json(std::string_view(buffer_).substr(0, end));
  buffer_.erase(0, end + 1);
  searched_ = 0;
  if (value.is_discarded()) {
    return failure(std::errc::bad_message, "reading the controller's answer: it is not JSON");
  }
  return std::optional(std::move(value));
}

Result<bool> ControlClient::read_some() {
  std::array<char, 64 * 1024> bytes{};
  const auto count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count < 0 && errno == ECONNRESET) return false;
  if (count < 0) return failure_from_errno(errno, "reading from the controller");
  buffer_.append(bytes.data(), static_cast<std::size_t>(count));
  return count > 0;
}

Result<nlohmann::json> ControlClient::receive(milliseconds limit) {
  while (true) {
    auto line = take();
    if (!line) return tl::unexpected(line.error());
    if (*line) return std::move(**line);
    pollfd entry{socket_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, poll_milliseconds(limit));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return failure(std::errc::timed_out, "waiting for the controller's answer");
    const auto open = read_some();
    if (!open) return tl::unexpected(open.error());
    if (!*open && buffer_.find('\n') == std::string::npos) {
      return failure(std::errc::connection_reset, "waiting for the controller's answer");
    }
  }
}

int poll_milliseconds(milliseconds limit) {
  constexpr milliseconds::rep kMax = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<milliseconds::rep>(limit.count(), 0, kMax));
}

Result<nlohmann::json> ask(const std::string& state_directory, const nlohmann::json& request,
                           milliseconds limit) {
  auto client = ControlClient::connect(state_directory);
  if (!client) return tl::unexpected(client.error());
  if (const auto sent = client->send(request); !sent) return tl::unexpected(sent.error());
  return client->receive(limit);
}

}  // namespace dlaunch::launcher::cli
