#include "launcher/cli/io/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dlaunch::launcher::cli {
namespace {

/// Closes on every path out of a function.
struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

Result<ControlClient> ControlClient::connect(const std::string& state_directory) {
  // A path through /proc/self/fd stays below the 108 bytes of sun_path however long the directory
  // is.
  const Descriptor directory{::open(state_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (directory.value < 0) return failure_from_errno(errno, "opening " + state_directory);
  const auto path = "/proc/self/fd/" + std::to_string(directory.value) + "/control.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failure_from_errno(errno, "making a socket");
  ControlClient client(descriptor);
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(descriptor, plain, sizeof(address)) != 0) {
    return failure_from_errno(errno, "connecting to " + state_directory + "/control.sock");
  }
  return client;
}

ControlClient::ControlClient(ControlClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      searched_(other.searched_) {}

ControlClient& ControlClient::operator=(ControlClient&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(buffer_, other.buffer_);
  std::swap(searched_, other.searched_);
  return *this;
}

ControlClient::~ControlClient() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> ControlClient::send(const nlohmann::json& request) {
  const auto line = request.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const auto count = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
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
  auto value = nlohmann::json::parse(buffer_.substr(0, end), nullptr, false);
  buffer_.erase(0, end + 1);
  searched_ = 0;
  if (value.is_discarded()) {
    return failure(std::errc::bad_message, "reading the controller's answer: it is not JSON");
  }
  return std::optional(std::move(value));
}

Result<bool> ControlClient::read_some() {
  std::array<char, 64 * 1024> bytes{};
  const auto count = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
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
    pollfd entry{descriptor_, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(limit.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return failure(std::errc::timed_out, "waiting for the controller's answer");
    const auto open = read_some();
    if (!open) return tl::unexpected(open.error());
    if (!*open && buffer_.find('\n') == std::string::npos) {
      return failure(std::errc::connection_reset, "waiting for the controller's answer");
    }
  }
}

Result<nlohmann::json> ask(const std::string& state_directory, const nlohmann::json& request,
                           milliseconds limit) {
  auto client = ControlClient::connect(state_directory);
  if (!client) return tl::unexpected(client.error());
  if (const auto sent = client->send(request); !sent) return tl::unexpected(sent.error());
  return client->receive(limit);
}

}  // namespace dlaunch::launcher::cli
