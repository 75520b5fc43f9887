#include "supervisor/host/io/agent_identity.h"

#include <unistd.h>

#include <string>

#include "base/io/clock.h"
#include "base/io/files.h"

namespace dlaunch::supervisor::host {
namespace {

std::uint64_t new_agent_number() {
  return static_cast<std::uint64_t>(unix_now() * 1e6) ^
         (static_cast<std::uint64_t>(::getpid()) << 44U);
}

}  // namespace

Identity identity_of(const protocol::Bootstrap& bootstrap) {
  Identity identity;
  identity.job = bootstrap.job;
  identity.host = bootstrap.host_id;
  identity.name = bootstrap.host;
  identity.build = bootstrap.build;
  identity.boot_id = read_file("/proc/sys/kernel/random/boot_id", 64).value_or("unknown");
  identity.agent = new_agent_number();
  identity.pid = static_cast<std::uint32_t>(::getpid());
  identity.first = bootstrap.first;
  identity.lease = bootstrap.lease;
  identity.stop_on_lease_end = bootstrap.stop_on_lease_end;
  return identity;
}

pid_t find_holder(const protocol::Bootstrap& bootstrap) {
  const auto parent = ::getppid();
  const auto words = read_file("/proc/" + std::to_string(parent) + "/cmdline", 4096).value_or("");
  const bool ours = words.find(std::string("\0holder\0", 8)) != std::string::npos &&
                    words.find(bootstrap.job) != std::string::npos;
  return ours ? parent : 0;
}

}  // namespace dlaunch::supervisor::host
