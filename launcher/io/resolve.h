// Names to addresses within a deadline, although the resolver itself knows none.
#pragma once

#include <netdb.h>

#include <cstdint>
#include <memory>
#include <string>

#include "launcher/io/deadline.h"
#include "launcher/io/plant_failure.h"

namespace dlaunch::launcher::io {

class Interrupt;

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

/// unresolved or cancelled.
[[nodiscard]] Planting<Addresses> resolve(const std::string& name, std::uint16_t port,
                                          const Deadline& deadline, const Interrupt& interrupt);

}  // namespace dlaunch::launcher::io
