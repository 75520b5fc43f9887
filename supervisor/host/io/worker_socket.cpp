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

void remove_sockets_of(const std::string& directory) {
  const auto remove_in = [](const std::string& place, std::string_view prefix) {
    std::error_code code, ignored;
    const std::filesystem::directory_iterator end;
    for (std::filesystem::directory_iterator at(place, code); !code && at != end;
         at.increment(code)) {
      const bool named = at->path().filename().string().starts_with(prefix);
      if (named && at->is_socket(ignored)) std::filesystem::remove(at->path(), ignored);
    }
  };
  remove_in(directory, "");
  remove_in(kShortDirectory, short_prefix(directory));
}

}  // namespace dlaunch::supervisor::host
