// The kinds of faults that a simulated cluster suffers.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace dlaunch::simulation {

enum class Fault {
  worker_crash,       ///< exit code or signal
  out_of_memory,      ///< the kernel kills a worker
  worker_hang,        ///< alive, but it does not step any more
  worker_slow,        ///< all wait for it, for a while
  worker_undead,      ///< what is killed there sleeps in the kernel for a while
  agent_kill,         ///< kill -9; its holder starts another
  agent_stall,        ///< SIGSTOP, SIGCONT
  host_crash,         ///< power loss, then a reboot with a new boot id
  switch_reboot,      ///< many hosts lose power at once
  link_delay,         ///< a slow way to the controller
  link_loss,          ///< lost segments, as TCP shows them: stalls
  cut_both,           ///< nothing passes between a host and the controller
  cut_to_controller,  ///< one way
  cut_to_host,        ///< the other way
  clog,               ///< nothing arrives, then all of it at once
  partition,          ///< the controller is cut off from everybody
  connection_reset,   ///< the agent is back before the old connection's end is known
  clock_drift,        ///< a host's clock runs fast or slow
  controller_stall,   ///< it does not run for a moment
  suspend,            ///< the laptop that it runs on sleeps
  controller_kill,    ///< the keeper starts another from the journal
  two_controllers,    ///< the old one lives on, cut off at first
  ssh_refused,
  ssh_slow,
  ssh_wrong_key,
  dial_blocked,    ///< agents cannot dial back (NAT, firewall)
  disk_full,       ///< under run.db
  storage_outage,  ///< of the checkpoint directory
  data_link_down,  ///< a flap, or for good
  data_cut,        ///< no datagram passes between a host and the others
  data_pair_cut,   ///< nor between two of them
  isolated,        ///< neither the controller nor another host reaches it, yet it lives
  drain_and_add,   ///< a person takes a host out and lets it in again
  checkpoint_asked,
  relay_lost,   ///< a host's control path is cut, and the agent that relays for it is killed
  tunnel_lost,  ///< the SSH connection that carries an agent's control ends
};
constexpr std::array kFaultNames = {
    "worker_crash",    "out_of_memory",    "worker_hang",       "worker_slow",      "worker_undead",
    "agent_kill",      "agent_stall",      "host_crash",        "switch_reboot",    "link_delay",
    "link_loss",       "cut_both",         "cut_to_controller", "cut_to_host",      "clog",
    "partition",       "connection_reset", "clock_drift",       "controller_stall", "suspend",
    "controller_kill", "two_controllers",  "ssh_refused",       "ssh_slow",         "ssh_wrong_key",
    "dial_blocked",    "disk_full",        "storage_outage",    "data_link_down",   "data_cut",
    "data_pair_cut",   "isolated",         "drain_and_add",     "checkpoint_asked", "relay_lost",
    "tunnel_lost"};
constexpr std::size_t kFaults = kFaultNames.size();

[[nodiscard]] constexpr const char* name_of(Fault fault) {
  return kFaultNames[static_cast<std::size_t>(fault)];
}
[[nodiscard]] constexpr std::optional<Fault> fault_named(std::string_view name) {
  for (std::size_t i = 0; i < kFaults; ++i) {
    if (kFaultNames[i] == name) return static_cast<Fault>(i);
  }
  return std::nullopt;
}

}  // namespace dlaunch::simulation
