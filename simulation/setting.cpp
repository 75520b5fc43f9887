#include "simulation/setting.h"

#include <algorithm>
#include <string>

namespace dlaunch::simulation {
namespace {

constexpr nanoseconds kSuccessorSlack = 300ms;
constexpr nanoseconds kHeartbeatPerHost = 25us;
constexpr int kHeartbeatsPerLostAfter = 5;

void fill_welcome(const Scenario& scenario, launcher::controller::Setting& setting) {
  const auto in_ms = [](nanoseconds time) { return static_cast<std::uint32_t>(time / 1ms); };
  setting.welcome.set_heartbeat_ms(in_ms(setting.heartbeat));
  setting.welcome.set_lease_ms(in_ms(scenario.lease));
  setting.welcome.set_lost_after_ms(in_ms(scenario.lost_after));
  setting.welcome.set_stop_on_lease_end(true);
  auto& job = *setting.welcome.mutable_job();
  job.set_name("simulated");
  job.set_trainer(!scenario.program);
  job.add_command("/trainer");
  job.set_trainer_settings("{}");
  if (!scenario.program) job.set_checkpoint_directory("/checkpoints");
  job.set_stop_grace_ms(in_ms(setting.job.stop_grace));
}

}  // namespace

nanoseconds heartbeat_of(const Scenario& scenario) {
  const auto hosts = static_cast<std::int64_t>(scenario.hosts + scenario.spares);
  return std::min(std::max<nanoseconds>(100ms, hosts * kHeartbeatPerHost),
                  scenario.lost_after / kHeartbeatsPerLostAfter);
}

launcher::controller::Setting make_setting(const Scenario& scenario) {
  launcher::controller::Setting setting;
  for (std::uint32_t i = 0; i < scenario.hosts + scenario.spares; ++i) {
    const auto name = "h" + std::to_string(i);
    setting.launch.hosts.push_back({HostId{i}, name, name});
    setting.rendezvous.hosts.push_back({HostId{i}, name, i >= scenario.hosts});
    setting.job.host_names[HostId{i}] = name;
  }
  setting.heartbeat = heartbeat_of(scenario);
  auto& rendezvous = setting.rendezvous;
  rendezvous.hosts_min = scenario.hosts_min;
  rendezvous.hosts_max = scenario.hosts;
  rendezvous.heartbeat = setting.heartbeat;
  rendezvous.lost_after = scenario.lost_after;
  rendezvous.successor_limit =
      std::min(rendezvous.successor_limit, scenario.lost_after + kSuccessorSlack);
  rendezvous.quarantine = scenario.quarantine;
  auto& job = setting.job;
  job.job_id = kJobId;
  job.job_name = "simulated";
  job.trainer = !scenario.program;
  job.steps = scenario.training.steps == 0 ? ~std::uint64_t{0} : scenario.training.steps;
  job.trainer_settings = "{}";
  if (!scenario.program) job.checkpoint_directory = "/checkpoints";
  job.every = supervisor::job::EverySteps{scenario.training.checkpoint_every};
  job.process_restarts_max = scenario.restarts;
  job.no_progress_generations = scenario.no_progress_generations;
  job.wait_for_host = scenario.wait_for_host;
  job.lease = scenario.lease;
  job.hang_floor = scenario.hang_floor;
  fill_welcome(scenario, setting);
  return setting;
}

}  // namespace dlaunch::simulation
