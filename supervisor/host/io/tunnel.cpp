#include "supervisor/host/io/tunnel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace dlaunch::supervisor::host {
namespace {

constexpr const char* kName = "tunnel.sock";
constexpr std::size_t kPassedBytesMax = std::size_t{64} << 10U;  // that wait, each way

/// Through the descriptor: the path of a scratch directory may be longer than a socket's may.
sockaddr_un address_in(const FileDescriptor& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = "/proc/self/fd/" + std::to_string(directory.get()) + "/" + name;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  return address;
}

FileDescriptor open_directory(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

FileDescriptor new_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// One way: reads only when all that was read before is written.
struct Way {
  int from = -1;
  int to = -1;
  std::array<char, kPassedBytesMax> bytes{};
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] bool waiting() const { return begin < end; }
  [[nodiscard]] pollfd wish() const {
    return waiting() ? pollfd{to, POLLOUT, 0} : pollfd{from, POLLIN, 0};
  }
  /// False: one of the two has ended.
  [[nodiscard]] bool go_on() {
    const auto count = waiting() ? ::write(to, bytes.data() + begin, end - begin)
                                 : ::read(from, bytes.data(), bytes.size());
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (waiting()) {
      begin += static_cast<std::size_t>(count);
      return true;
    }
    begin = 0;
    end = static_cast<std::size_t>(count);
    return count > 0;
  }
};

}  // namespace

Result<FileDescriptor> take_tunnel(const std::string& directory) {
  const auto place = open_directory(directory);
  if (!place.is_open()) return failure_from_errno(errno, "opening " + directory);
  auto socket = new_socket();
  const auto address = address_in(place, kName);
  const auto* general = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.is_open() || ::connect(socket.get(), general, sizeof(address)) != 0) {
    return failure_from_errno(errno, "taking a tunnel");
  }
  return socket;
}

TunnelOffer::TunnelOffer(FileDescriptor directory, FileDescriptor listener, std::string own_name)
    : directory_(std::move(directory)),
      listener_(std::move(listener)),
      own_name_(std::move(own_name)) {}

TunnelOffer::TunnelOffer(TunnelOffer&& other) noexcept
    : directory_(std::move(other.directory_)),
      listener_(std::move(other.listener_)),
      own_name_(std::exchange(other.own_name_, "")) {}

TunnelOffer::~TunnelOffer() { withdraw(); }

/// The name appears with a socket that already listens, and the newest offer is the one that
/// counts.
Result<TunnelOffer> TunnelOffer::open(const std::string& directory) {
  auto place = open_directory(directory);
  if (!place.is_open()) return failure_from_errno(errno, "opening " + directory);
  const auto own_name = "tunnel." + std::to_string(::getpid());
  ::unlinkat(place.get(), own_name.c_str(), 0);
  auto socket = new_socket();
  const auto address = address_in(place, own_name);
  const auto* general = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.is_open() || ::bind(socket.get(), general, sizeof(address)) != 0 ||
      ::fchmodat(place.get(), own_name.c_str(), 0600, 0) != 0 || ::listen(socket.get(), 1) != 0 ||
      ::linkat(place.get(), own_name.c_str(), place.get(), (own_name + ".new").c_str(), 0) != 0 ||
      ::renameat(place.get(), (own_name + ".new").c_str(), place.get(), kName) != 0) {
    const int number = errno;
    ::unlinkat(place.get(), own_name.c_str(), 0);
    return failure_from_errno(number, "offering a tunnel in " + directory);
  }
  return TunnelOffer(std::move(place), std::move(socket), own_name);
}

void TunnelOffer::withdraw() {
  if (own_name_.empty()) return;
  struct stat ours {};
  struct stat present {};
  const bool same = ::fstatat(directory_.get(), own_name_.c_str(), &ours, 0) == 0 &&
                    ::fstatat(directory_.get(), kName, &present, 0) == 0 &&
                    ours.st_ino == present.st_ino;
  if (same) ::unlinkat(directory_.get(), kName, 0);
  ::unlinkat(directory_.get(), own_name_.c_str(), 0);
  own_name_.clear();
}

Result<FileDescriptor> TunnelOffer::accept() {
  FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) return failure_from_errno(errno, "accepting who takes a tunnel");
  withdraw();
  listener_.reset();
  return socket;
}

void pass_bytes(int input, int output, int socket) {
  for (const int one : {input, output}) {
    ::fcntl(one, F_SETFL, ::fcntl(one, F_GETFL) | O_NONBLOCK);
  }
  std::array<Way, 2> ways;
  ways[0].from = input;
  ways[0].to = ways[1].from = socket;
  ways[1].to = output;
  while (true) {
    std::array<pollfd, 2> waits{ways[0].wish(), ways[1].wish()};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (waits[i].revents != 0 && !ways[i].go_on()) return;
    }
  }
}

}  // namespace dlaunch::supervisor::host
