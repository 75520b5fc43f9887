// What `dlaunch status --json` shows, schema 1, and the lines of events and incidents.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/time.h"
#include "launcher/controller/controller.h"
#include "launcher/controller/run_record.h"
#include "supervisor/job/command.h"
#include "supervisor/job/figures.h"

namespace dlaunch::launcher::controller {

/// What does not change while a controller lives.
struct JobIdentity {
  std::string name;
  std::string id;
  std::uint64_t steps = 0;  ///< 0: not known ([program])
  std::map<HostId, std::string> host_names;
  std::string controller_host;
  std::int64_t controller_pid = 0;
  std::vector<nlohmann::json> earlier_incidents;  ///< of the incarnations before
};

[[nodiscard]] nlohmann::json status_json(const JobIdentity& job,
                                         const std::vector<Controller::HostView>& hosts,
                                         const supervisor::job::View& view, Instant now);
/// What is not known is null.
[[nodiscard]] nlohmann::json figures_json(const supervisor::job::Figures& figures);
[[nodiscard]] nlohmann::json incident_json(const JobIdentity& job,
                                           const supervisor::job::Incident& incident);
/// What a viewer shows when the job comes to run: state, reason, and who has which ranks.
[[nodiscard]] nlohmann::json summary_json(const JobIdentity& job,
                                          const std::vector<Controller::HostView>& hosts,
                                          const supervisor::job::View& view);
/// `id`, `time`, `mono_ns`, `event`, `generation`, and `host`, `rank`, `step`, `detail` where they
/// apply.
[[nodiscard]] nlohmann::json event_json(const EventRow& event);
/// A line of `logs` on the control socket.
[[nodiscard]] nlohmann::json output_json(const OutputChunk& chunk);

}  // namespace dlaunch::launcher::controller
