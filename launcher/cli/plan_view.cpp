#include "launcher/cli/plan_view.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/views/table.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::cli {

std::string plan_text(const config::HostsFile& hosts, const config::TrainFile& train,
                      bool as_json) {
  std::vector<std::vector<std::string>> rows{{"HOST", "ADDRESS", "RANKS", "TRANSPORT", "ROLE"}};
  auto list = nlohmann::json::array();
  std::size_t next_rank = 0;
  std::size_t members = 0;
  bool known = true;
  for (const auto& host : hosts.hosts) {
    const bool full = train.job.hosts_max > 0 && members >= train.job.hosts_max;
    const bool trains = !host.spare && !full;
    std::string ranks;
    auto numbers = nlohmann::json::array();
    if (trains) {
      ++members;
      known = known && host.workers.has_value();
      if (known) {
        std::vector<std::size_t> own;
        for (std::uint32_t i = 0; i < *host.workers; ++i) own.push_back(next_rank++);
        ranks = views::ranges(own);
        numbers = own;
      } else {
        ranks = host.workers ? std::to_string(*host.workers) + " workers" : "one per GPU, else 1";
      }
    }
    const std::string transport = host.transport == config::Transport::local ? "local" : "ssh";
    rows.push_back({host.name, host.address, ranks, transport, trains ? "trains" : "spare"});
    list.push_back({{"name", host.name},
                    {"address", host.address},
                    {"ranks", numbers},
                    {"transport", transport},
                    {"spare", !trains}});
  }
  const std::string what = train.trainer ? "trainer " + train.trainer->strategy + ", " +
                                               std::to_string(train.trainer->steps) + " steps"
                                         : "program " + train.program->command.front();
  if (as_json) {
    return protocol::json_text({{"job", train.job.name}, {"runs", what}, {"hosts", list}}) + "\n";
  }
  return "job " + train.job.name + ": " + what + "\n\n" + views::table(rows);
}

}  // namespace dlaunch::launcher::cli
