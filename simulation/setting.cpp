#include "simulation/setting.h"

#include <string>

namespace dlaunch::simulation {

launcher::controller::Setting make_setting(const Scenario& scenario) {
  launcher::controller::Setting setting;
  setting.incarnation = Incarnation{1};
  for (std::uint32_t i = 0; i < scenario.hosts + scenario.spares; ++i) {
    const auto name = "h" + std::to_string(i);
    setting.launch.hosts.push_back({HostId{i}, name, name});
    setting.rendezvous.hosts.push_back({HostId{i}, name, i >= scenario.hosts});
    setting.job.host_names[HostId{i}] = name;
  }
  setting.rendezvous.hosts_min = scenario.hosts_min;
  setting.rendezvous.hosts_max = scenario.hosts;
  setting.rendezvous.successor_limit = 900ms;
  setting.rendezvous.quarantine =
      false;  // random faults hit the same host more often than real ones
  setting.job.job_id = kJobId;
  setting.job.job_name = "simulated";
  setting.job.steps = scenario.training.steps;
  setting.job.trainer_settings = "{}";
  setting.job.checkpoint_directory = "/checkpoints";
  setting.job.every = supervisor::job::EverySteps{scenario.training.checkpoint_every};
  setting.job.process_restarts_max = 1000;
  setting.welcome.set_heartbeat_ms(100);
  setting.welcome.set_lease_ms(60'000);
  setting.welcome.set_stop_on_lease_end(true);
  auto& job = *setting.welcome.mutable_job();
  job.set_name("simulated");
  job.set_trainer(true);
  job.add_command("/trainer");
  job.set_trainer_settings("{}");
  job.set_checkpoint_directory("/checkpoints");
  job.set_stop_grace_ms(30'000);
  return setting;
}

}  // namespace dlaunch::simulation
