#include "launcher/controller/io/listen_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/io/file_descriptor.h"
#include "launcher/io/deadline.h"
#include "launcher/io/resolve.h"
#include "launcher/io/ssh_dial.h"

namespace dlaunch::launcher::controller {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kAny = "0.0.0.0";
// For all names together; those without an answer then get all addresses.
constexpr nanoseconds kLookupLimit = 3s;
constexpr std::uint16_t kAnyPort = 9;  // a UDP connect sends nothing

io::Addresses look_up(const std::string& name, const io::Deadline& deadline) {
  const io::Interrupt never;
  auto found = io::resolve(name, kAnyPort, deadline, never);
  return found ? std::move(*found) : nullptr;
}

std::optional<std::string> text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return text.data();
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;  // needs an interface's name
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  return text.data();
}

/// The local end of a UDP socket that is connected there: the kernel's own choice.
std::optional<std::string> local_address_towards(const addrinfo& remote) {
  const FileDescriptor socket(::socket(remote.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return std::nullopt;
  sockaddr_storage local{};
  socklen_t bytes = sizeof(local);
  const bool known = ::connect(socket.get(), remote.ai_addr, remote.ai_addrlen) == 0 &&
                     ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &bytes) == 0;
  return known ? text_of(reinterpret_cast<const sockaddr*>(&local)) : std::nullopt;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = text_of(entry->ifa_addr);
    if (address && !is_loopback(*address)) addresses.push_back(*address);
  }
  ::freeifaddrs(list);
  return addresses;
}

void add_once(std::vector<std::string>& list, const std::string& address) {
  if (std::find(list.begin(), list.end(), address) == list.end()) list.push_back(address);
}

void by_routes(const config::HostsFile& hosts, ListenAddresses& addresses) {
  const io::Deadline deadline(kLookupLimit);
  bool all_known = true;
  for (const auto& host : hosts.hosts) {
    if (host.transport == config::Transport::local) continue;
    // Behind a jump host the route says little, and an alias of SSH's settings has no address here.
    std::optional<std::string> local;
    if (!deadline.over()) {
      const auto found = look_up(host.address, deadline);
      if (found) local = local_address_towards(*found);
    }
    if (local) {
      addresses.likeliest[host.address] = *local;
      add_once(addresses.announce, *local);
    }
    if (!local || !host.jump.empty()) all_known = false;
  }
  if (all_known) return;
  for (const auto& address : own_addresses()) add_once(addresses.announce, address);
}

}  // namespace

Result<ListenAddresses> find_listen_addresses(const config::HostsFile& hosts) {
  ListenAddresses addresses;
  const bool any_local = std::any_of(hosts.hosts.begin(), hosts.hosts.end(), [](const auto& host) {
    return host.transport == config::Transport::local;
  });
  const auto& wished = hosts.network.controller_address;
  if (!wished.empty()) {
    const auto found = look_up(wished, io::Deadline(kLookupLimit));
    const auto numeric = found ? text_of(found->ai_addr) : std::nullopt;
    if (!numeric) {
      return failure(std::error_code(), "[network] controller_address = \"" + wished +
                                            "\" has no address; write a number or a name that "
                                            "resolves here");
    }
    addresses.announce.push_back(*numeric);
    const auto own = own_addresses();
    const bool ours =
        is_loopback(*numeric) || std::find(own.begin(), own.end(), *numeric) != own.end();
    // Somebody else's address: a translator in between passes the connections on.
    if (!ours) {
      addresses.bind = {kAny};
      return addresses;
    }
  } else {
    by_routes(hosts, addresses);
  }
  addresses.bind = addresses.announce;
  if (any_local || addresses.bind.empty()) add_once(addresses.bind, kLoopback);
  return addresses;
}

std::string own_listener(const ListenAddresses& addresses) {
  const bool somewhere = !addresses.bind.empty() && addresses.bind.front() != kAny;
  return somewhere ? addresses.bind.front() : kLoopback;
}

std::vector<std::string> candidates(const ListenAddresses& addresses,
                                    const config::HostSpec& host) {
  std::vector<std::string> list;
  if (host.transport == config::Transport::local) {
    // Beside hosts elsewhere its workers must be reached from there: the address of the connection
    // is where they listen. A translator's address is not ours to dial.
    const bool ours = addresses.bind != std::vector<std::string>{kAny};
    if (ours) list = addresses.announce;
    add_once(list, kLoopback);
    return list;
  }
  const auto found = addresses.likeliest.find(host.address);
  if (found != addresses.likeliest.end()) list.push_back(found->second);
  for (const auto& address : addresses.announce) add_once(list, address);
  return list;
}

}  // namespace dlaunch::launcher::controller
