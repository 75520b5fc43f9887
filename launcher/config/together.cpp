#include "launcher/config/together.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace dlaunch::launcher::config {
namespace {

/// As many ranks as the largest `hosts_max` hosts have.
std::uint64_t ranks_max(const HostsFile& hosts, std::size_t hosts_max) {
  std::vector<std::uint64_t> workers;
  for (const auto& host : hosts.hosts) workers.push_back(host.workers.value_or(1));
  std::sort(workers.begin(), workers.end(), std::greater<>());
  std::uint64_t ranks = 0;
  for (std::size_t i = 0; i < std::min(workers.size(), hosts_max); ++i) ranks += workers[i];
  return ranks;
}

}  // namespace

std::vector<Problem> check_together(const HostsFile& hosts, const TrainFile& train,
                                    const std::string& file) {
  std::vector<Problem> problems;
  const auto regular = static_cast<std::size_t>(std::count_if(
      hosts.hosts.begin(), hosts.hosts.end(), [](const HostSpec& host) { return !host.spare; }));
  const auto most = train.job.hosts_max == 0 ? regular : train.job.hosts_max;
  const auto least = train.job.hosts_min == 0 ? std::min(most, regular) : train.job.hosts_min;
  if (least > hosts.hosts.size()) {
    problems.push_back({file, train.hosts_place.line, train.hosts_place.column,
                        "`hosts` in [job] wants at least " + std::to_string(least) +
                            " hosts, there are " + std::to_string(hosts.hosts.size()),
                        "expected more hosts in the hosts file, or a lower minimum"});
  }
  const auto ranks = ranks_max(hosts, most);
  const auto batches = train.trainer ? train.trainer->logical_batches : 0;
  if (batches != 0 && batches < ranks) {
    problems.push_back({file, train.logical_batches_place.line, train.logical_batches_place.column,
                        "`logical_batches` in [trainer] is " + std::to_string(batches) +
                            ", the job can have " + std::to_string(ranks) + " ranks",
                        "expected at least " + std::to_string(std::bit_ceil(ranks)) +
                            ", so that every rank has something to do"});
  }
  return problems;
}

}  // namespace dlaunch::launcher::config
