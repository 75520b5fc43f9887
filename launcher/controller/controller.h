// The controller of one job: launch, rendezvous and supervision joined into one pure machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "launcher/controller/command.h"
#include "launcher/controller/event.h"
#include "launcher/controller/preflight.h"
#include "launcher/launch/launch.h"
#include "rendezvous/coordinator.h"
#include "supervisor/job/job.h"

namespace dlaunch::launcher::controller {

/// What the hosts file says of one host alone, over the welcome that is the same for all.
struct HostWish {
  std::uint32_t workers = 0;  ///< 0: auto
  std::string trainer;        ///< empty: as for all
  std::uint32_t gpus = 0;     ///< with fewer it is not fit
};
struct Setting {
  Incarnation incarnation;
  launch::Policy launch;
  rendezvous::Policy rendezvous;
  supervisor::job::Policy job;
  supervisor::job::Recovered recovered;
  protocol::Welcome welcome;  ///< the same for all hosts
  std::map<HostId, HostWish> host_wishes;
  std::map<std::string, Content> own_files;  ///< those of the job's files that are here, by path
  nanoseconds heartbeat = 100ms;
  bool agents_dial = true;  ///< false: they wait for connections from here
};

[[nodiscard]] protocol::Welcome welcome_for(const Setting& setting, HostId host);
/// 0: the hosts file does not say.
[[nodiscard]] std::uint32_t gpus_wanted(const Setting& setting, HostId host);

/// Routes events to Launch, Coordinator and Job and their commands to each other and to the hands;
/// beats to every connected host; drops frames of other jobs, incarnations and connections.
class Controller {
 public:
  Controller(Setting setting, Rng& rng, Instant now);
  ~Controller();

  [[nodiscard]] std::vector<Command> step(Instant now, Event event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  struct HostView {
    HostId host;
    std::string name;
    rendezvous::HostState state = rendezvous::HostState::connecting;
    std::string reason;
    std::optional<Instant> last_heard;
    std::uint32_t agent_pid = 0;
    std::vector<std::string> blind_sensors;
    std::string scratch;
    bool connected = false;
    std::uint64_t heartbeats = 0;  ///< that came since this controller began
    bool over_ssh = false;         ///< its frames go over the connection that planted it
  };
  [[nodiscard]] std::vector<HostView> hosts() const;
  [[nodiscard]] supervisor::job::View job() const;
  /// Why the host cannot be taken out of the job now; empty: it can.
  [[nodiscard]] std::string why_not_drain(HostId host) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::launcher::controller
