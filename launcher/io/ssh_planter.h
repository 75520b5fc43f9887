// Plants agents: a pool of threads, each with one host at a time, that only posts outcomes back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "launcher/io/open_shell.h"
#include "launcher/launch/event.h"
#include "launcher/launch/start_script.h"
#include "protocol/bootstrap.h"

namespace dlaunch::launcher::io {

struct PlantRequest : HostReach {
  HostId host;
  std::uint64_t attempt = 0;
  std::string scratch;           ///< empty: the first usable default
  nanoseconds connect_within{};  ///< until the login is done
  nanoseconds start_within = 60s;
  nanoseconds hello_within = 15s;
  protocol::Bootstrap bootstrap;
  protocol::ControllerAddress controller;  ///< where bytes of agents that cannot dial back go
};

/// Something the user should know: a host key that was accepted, a setting that is not honoured.
struct PlantNotice {
  HostId host;
  std::string sentence;  ///< without the host's name
};
using PlantOutcome =
    std::variant<launch::PlantProgress, launch::PlantFailed, launch::Planted, PlantNotice>;

/// Thread-safe. Each request ends with one PlantFailed or Planted, cancelled ones too.
class Planter {
 public:
  /// As many as the launch has in flight at once (Policy::total_max).
  static constexpr std::uint32_t kThreadsMax = 64;

  /// Hosts whose frames go over their SSH connections, each with a thread of its own.
  static constexpr std::uint32_t kTunnelsMax = 1024;

  /// `config` may be shared with who asks for settings early.
  Planter(std::vector<launch::AgentBinary> agents, std::shared_ptr<SshConfig> config);
  Planter(const Planter&) = delete;
  Planter& operator=(const Planter&) = delete;
  /// Cancels everything and waits for the threads.
  ~Planter();

  /// `post` is called on a thread of the pool, several times, also before this returns.
  void plant(PlantRequest request, std::function<void(PlantOutcome)> post);
  /// Ends what is under way for this host; its outcome is PlantFailed, cancelled. A tunnel stays.
  void cancel(HostId host);

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace dlaunch::launcher::io
