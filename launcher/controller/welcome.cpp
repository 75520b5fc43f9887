// What one host is welcomed with.
#include "launcher/controller/controller.h"

namespace dlaunch::launcher::controller {

protocol::Welcome welcome_for(const Setting& setting, HostId host) {
  auto welcome = setting.welcome;
  const auto wish = setting.host_wishes.find(host);
  if (wish == setting.host_wishes.end()) return welcome;
  auto& job = *welcome.mutable_job();
  job.set_workers(wish->second.workers);
  if (wish->second.trainer.empty() || !job.trainer()) return welcome;
  for (auto& check : *job.mutable_checks()) {
    if (check.path() == job.command(0)) check.set_path(wish->second.trainer);
  }
  job.set_command(0, wish->second.trainer);
  return welcome;
}

std::uint32_t gpus_wanted(const Setting& setting, HostId host) {
  const auto wish = setting.host_wishes.find(host);
  return wish == setting.host_wishes.end() ? 0 : wish->second.gpus;
}

}  // namespace dlaunch::launcher::controller
