#include "supervisor/host/io/worker_socket.h"

#include <sys/un.h>

#include <filesystem>
#include <span>
#include <string_view>

#include "base/content_hash.h"

namespace dlaunch::supervisor::host {
namespace {

constexpr std::size_t kSocketPathMax = sizeof(sockaddr_un::sun_path) - 8;
constexpr const char* kShortDirectory = "/tmp";
constexpr std::size_t kHashDigits = 16;  // of one user's directories on one host

std::string short_prefix(const std::string& directory) {
  return ".dlaunch-" + content_hash(std::as_bytes(std::span(directory))).substr(0, kHashDigits) +
         "-";
}

}  // namespace

std::string worker_socket_path(const std::string& directory, Generation generation, Rank rank) {
  const auto which = std::to_string(generation.value) + "-" + std::to_string(rank.value);
  auto path = directory + "/worker-" + which + ".sock";
  if (path.size() <= kSocketPathMax) return path;
  return std::string(kShortDirectory) + "/" + short_prefix(directory) + which;
}

void remove_worker_sockets(const std::string& directory) {
  const auto remove_in = [](const std::string& place, std::string_view prefix) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(place, ignored)) {
      const bool named = entry.path().filename().string().starts_with(prefix);
      if (named && entry.is_socket(ignored)) std::filesystem::remove(entry.path(), ignored);
    }
  };
  remove_in(directory, "");
  remove_in(kShortDirectory, short_prefix(directory));
}

}  // namespace dlaunch::supervisor::host
