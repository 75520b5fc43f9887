#include "launcher/launch/bootstrap.h"

#include <nlohmann/json.hpp>

namespace dlaunch::launcher::launch {

std::string to_line(const Bootstrap& bootstrap) {
  nlohmann::json addresses = nlohmann::json::array();
  for (const ControllerAddress& address : bootstrap.addresses) {
    addresses.push_back({{"address", address.address}, {"port", address.port}});
  }
  const nlohmann::json line = {
      {"job", bootstrap.job},
      {"host", bootstrap.host},
      {"host_id", bootstrap.host_id.value},
      {"incarnation", bootstrap.incarnation.value},
      {"build", bootstrap.build},
      {"secret", bootstrap.secret_hex},
      {"addresses", addresses},
      {"scratch", bootstrap.scratch},
      {"lease_seconds", to_seconds(bootstrap.lease)},
      {"on_lease_end", bootstrap.on_lease_end},
      {"environment", bootstrap.environment},
      {"data_address", bootstrap.data_address},
      {"data_interface", bootstrap.data_interface},
  };
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace dlaunch::launcher::launch
