// What the controller says of its hosts.
#include "launcher/controller/controller.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"

namespace dlaunch::launcher::controller {
namespace {

/// One host, as a controller of generation 4 finds it that was started again.
Setting restarted() {
  Setting setting;
  setting.incarnation = Incarnation{2};
  setting.job.job_id = "kjv-20261130-054512-1f3a";
  setting.launch.hosts = {{HostId{0}, "gpu01", "gpu01:22"}};
  setting.rendezvous.hosts = {{HostId{0}, "gpu01", false}};
  setting.rendezvous.hosts_min = setting.rendezvous.hosts_max = 1;
  setting.recovered.last_generation = Generation{4};
  return setting;
}

/// The first words of the only host's agent.
AgentFrameCame greeting(const Setting& setting) {
  AgentFrameCame came{HostId{0}, 1, {}, {}};
  came.frame.set_job(setting.job.job_id);
  came.frame.mutable_hello()->set_protocol(protocol::kProtocolVersion);
  return came;
}

/// Each command of this kind that came from the job.
template <class Wanted>
std::vector<Wanted> from_job(const std::vector<Command>& commands) {
  std::vector<Wanted> found;
  for (const auto& command : commands) {
    const auto* said = std::get_if<FromJob>(&command);
    const auto* wanted = said == nullptr ? nullptr : std::get_if<Wanted>(&said->command);
    if (wanted != nullptr) found.push_back(*wanted);
  }
  return found;
}

TEST(Controller, StampsWhatItSaysOfHostsWithTheGeneration) {
  const auto setting = restarted();
  Rng rng(1);
  const auto now = Instant{} + 1h;
  Controller controller(setting, rng, now);
  (void)controller.step(now, Begin{});
  auto came = greeting(setting);
  auto& hello = *came.frame.mutable_hello();
  hello.set_boot_id("boot");
  hello.set_agent(7);
  (void)controller.step(now, came);
  came.frame.mutable_ready()->mutable_facts()->set_workers(1);
  std::optional<Generation> stamped;
  for (const auto& record : from_job<supervisor::job::Record>(controller.step(now, came))) {
    if (record.event == "host_ready") stamped = record.generation;
  }
  EXPECT_EQ(stamped, Generation{4});
}

TEST(Controller, EndsWithoutAnOrderOnceAnAgentObeysANewerOne) {
  const auto setting = restarted();
  Rng rng(1);
  const auto now = Instant{} + 1h;
  Controller controller(setting, rng, now);
  (void)controller.step(now, Begin{});
  auto came = greeting(setting);
  came.frame.set_incarnation(3);
  const auto said = controller.step(now, came);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Superseded>(said.front()));
  EXPECT_FALSE(controller.next_deadline());
  EXPECT_TRUE(controller.step(now, DeadlineDue{}).empty());
}

TEST(Controller, EndsOnceAHostIsSaidToBelongToANewerOne) {
  const auto setting = restarted();
  Rng rng(1);
  const auto now = Instant{} + 1h;
  Controller controller(setting, rng, now);
  (void)controller.step(now, Begin{});
  const auto planted = now + setting.rendezvous.readmit;
  (void)controller.step(planted, DeadlineDue{});
  const launch::PlantFailed failed{HostId{0}, 1, launch::Cause::superseded, "incarnation 3"};
  bool superseded = false;
  for (const auto& command : controller.step(planted, LaunchReported{launch::Event{failed}})) {
    superseded = superseded || std::holds_alternative<Superseded>(command);
  }
  EXPECT_TRUE(superseded);
}

std::vector<HostId> planted_in(const std::vector<Command>& commands) {
  std::vector<HostId> hosts;
  for (const auto& command : commands) {
    const auto* order = std::get_if<PlantOrder>(&command);
    if (order == nullptr) continue;
    if (const auto* plant = std::get_if<launch::Plant>(&order->command)) {
      hosts.push_back(plant->host);
    }
  }
  return hosts;
}

TEST(Controller, DialsAgentsThatCannotDialAtOnceWhenItIsStartedAgain) {
  auto setting = restarted();
  setting.launch.hosts.push_back({HostId{1}, "gpu02", "gpu02:22"});
  setting.rendezvous.hosts.push_back({HostId{1}, "gpu02", false});
  setting.recovered.over_ssh = {HostId{1}};
  Rng rng(1);
  const auto now = Instant{} + 1h;
  Controller controller(setting, rng, now);
  EXPECT_EQ(planted_in(controller.step(now, Begin{})), std::vector{HostId{1}})
      << "the other finds its way back by itself";
  const auto later = now + setting.rendezvous.readmit;
  EXPECT_EQ(planted_in(controller.step(later, DeadlineDue{})), std::vector{HostId{0}});
}

TEST(Controller, WritesDownOnceWhichAgentsCannotDial) {
  const auto setting = restarted();
  Rng rng(1);
  const auto now = Instant{} + 1h;
  Controller controller(setting, rng, now);
  (void)controller.step(now, Begin{});
  auto came = greeting(setting);
  auto& hello = *came.frame.mutable_hello();
  hello.set_agent(7);
  const auto rows = [&](bool over_ssh, const std::string& relayed_by = "") {
    hello.set_over_ssh(over_ssh);
    hello.set_relayed_by(relayed_by);
    ++came.connection;
    std::string said;
    for (const auto& row : from_job<supervisor::job::Journal>(controller.step(now, came))) {
      if (row.kind == "over_ssh") said += row.json;
    }
    return said;
  };
  EXPECT_NE(rows(true).find("\"over\":true"), std::string::npos);
  EXPECT_EQ(rows(true), "");
  EXPECT_EQ(rows(false, "gpu02"), "") << "a relay is no way of its own";
  EXPECT_NE(rows(false).find("\"over\":false"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher::controller
