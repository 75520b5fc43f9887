#include "launcher/io/resolve.h"

#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "launcher/io/ssh_dial.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

constexpr nanoseconds kInterruptSlice = 20ms;

struct Found {
  int code = 0;
  Addresses list;
};

Found look_up(const std::string& name, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(name.c_str(), port.c_str(), &hints, &list);
  return {code, Addresses(code == 0 ? list : nullptr)};
}

struct Lookup {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<Found> found;
};

Planting<Addresses> answer(Found found) {
  if (found.code != 0) return plant_failure(Cause::unresolved, ::gai_strerror(found.code));
  return std::move(found.list);
}

}  // namespace

Planting<Addresses> resolve(const std::string& name, std::uint16_t port, const Deadline& deadline,
                            const Interrupt& interrupt) {
  const std::string port_text = std::to_string(port);
  Found numeric = look_up(name, port_text, AI_NUMERICHOST);
  if (numeric.code == 0) return answer(std::move(numeric));
  const auto lookup = std::make_shared<Lookup>();
  // getaddrinfo cannot be ended; one that hangs is left to the resolver's own limit, at most one
  // for each thread of the planter.
  std::thread([lookup, name, port_text] {
    Found found = look_up(name, port_text, 0);
    const std::lock_guard lock(lookup->mutex);
    lookup->found = std::move(found);
    lookup->done.notify_one();
  }).detach();
  std::unique_lock lock(lookup->mutex);
  while (!lookup->found) {
    if (interrupt.interrupted()) return plant_failure(Cause::cancelled, "");
    if (deadline.over())
      return plant_failure(Cause::unresolved, "the name service does not answer");
    lookup->done.wait_for(lock, std::min(deadline.left(), kInterruptSlice));
  }
  return answer(std::move(*lookup->found));
}

}  // namespace dlaunch::launcher::io
