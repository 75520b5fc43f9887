// hosts.toml and other host lists: who may take part, and how each is reached.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "launcher/config/problem.h"

namespace dlaunch::launcher::config {

enum class Transport { ssh, local };

/// What preflight wants of a host; 0: nothing.
struct Expectation {
  std::uint32_t gpus = 0;

  friend bool operator==(const Expectation&, const Expectation&) = default;
};

/// One host; texts that are empty were not given.
struct HostSpec {
  std::string name;
  std::string address;       ///< what SSH dials; default: name
  std::string data_address;  ///< where trainers talk
  std::string data_interface;
  std::string user;
  std::uint32_t port = 0;  ///< 0: as SSH's settings say
  std::string identity;
  std::string jump;
  std::string scratch;
  std::string trainer;                   ///< default: beside dlaunch
  std::optional<std::uint32_t> workers;  ///< nullopt: auto, one per GPU, else 1
  bool spare = false;
  Transport transport = Transport::ssh;
  Expectation expect;

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

enum class HostKeys { strict, accept_new };

struct NetworkSpec {
  std::string controller_address;  ///< empty: by the route to each host
  std::uint32_t port_first = 29600, port_last = 29899;
  std::string control = "auto";  ///< auto | dial | ssh
  HostKeys host_keys = HostKeys::strict;
  std::string ssh = "auto";  ///< auto | libssh | openssh
  nanoseconds connect_timeout = 10s;

  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

struct HostsFile {
  std::vector<HostSpec> hosts;  ///< in file order, which is the order of ranks
  NetworkSpec network;

  friend bool operator==(const HostsFile&, const HostsFile&) = default;
};

using HostsOrProblems = std::variant<HostsFile, std::vector<Problem>>;

/// `text` in any known form: hosts.toml when it has a table, else one host a line as Open MPI,
/// MPICH and DeepSpeed write them. `file` is only for problems.
[[nodiscard]] HostsOrProblems parse_hosts(std::string_view text, const std::string& file);
[[nodiscard]] HostsOrProblems parse_hosts_toml(std::string_view text, const std::string& file);
[[nodiscard]] HostsOrProblems parse_host_lines(std::string_view text, const std::string& file);

/// The hosts of a Slurm allocation: SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE of its environment.
[[nodiscard]] HostsOrProblems hosts_of_slurm(const std::map<std::string, std::string>& environment);

/// This machine alone, when no hosts file is given.
[[nodiscard]] HostsFile this_machine();

/// Files larger than this are refused: a hosts file of 65,536 plain names is below 1 MiB.
constexpr std::size_t kConfigBytesMax = 4 * 1024 * 1024;

}  // namespace dlaunch::launcher::config
