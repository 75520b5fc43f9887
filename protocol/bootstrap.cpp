#include "protocol/bootstrap.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "protocol/json_text.h"

namespace dlaunch::protocol {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos &&
         text.find('\0') == std::string::npos;
}

constexpr std::array<const char*, 3> kControls = {"auto", "dial", "ssh"};

}  // namespace

std::optional<Control> control_named(const std::string& name) {
  const auto found = std::find(kControls.begin(), kControls.end(), name);
  if (found == kControls.end()) return std::nullopt;
  return static_cast<Control>(found - kControls.begin());
}

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
      {"first", bootstrap.first},
      {"secret", bootstrap.secret_hex},
      {"addresses", addresses},
      {"control", kControls.at(static_cast<std::size_t>(bootstrap.control))},
      {"scratch", bootstrap.scratch},
      {"lease_seconds", to_seconds(bootstrap.lease)},
      {"on_lease_end", bootstrap.stop_on_lease_end ? "stop" : "keep"},
      {"environment", bootstrap.environment},
      {"data_address", bootstrap.data_address},
      {"data_interface", bootstrap.data_interface},
      {"login_environment", bootstrap.login_environment},
  };
  return json_text(line) + "\n";
}

Result<Bootstrap> parse_bootstrap(const std::string& line) {
  const auto wrong = [](const char* what) {
    return failure(std::errc::bad_message, std::string("reading the bootstrap: ") + what);
  };
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return wrong("it is no JSON object");
  Bootstrap bootstrap;
  try {
    bootstrap.job = json.at("job");
    bootstrap.host = json.at("host");
    bootstrap.host_id = HostId{json.at("host_id")};
    bootstrap.incarnation = Incarnation{json.value("incarnation", std::uint64_t{0})};
    bootstrap.build = json.value("build", "");
    bootstrap.first = json.value("first", false);
    bootstrap.secret_hex = json.at("secret");
    for (const auto& entry : json.at("addresses")) {
      bootstrap.addresses.push_back({entry.at("address"), entry.at("port")});
    }
    bootstrap.scratch = json.at("scratch");
    bootstrap.lease =
        nanoseconds(static_cast<std::int64_t>(json.value("lease_seconds", 60.0) * 1e9));
    bootstrap.stop_on_lease_end = json.value("on_lease_end", "stop") != "keep";
    bootstrap.environment = json.value("environment", bootstrap.environment);
    bootstrap.data_address = json.value("data_address", "");
    bootstrap.data_interface = json.value("data_interface", "");
    bootstrap.login_environment = json.value("login_environment", false);
    const auto control = control_named(json.value("control", "auto"));
    if (!control) return wrong("control is none of auto, dial, ssh");
    bootstrap.control = *control;
  } catch (const nlohmann::json::exception&) {
    return wrong("a key is missing or of the wrong type");
  }
  if (!is_name(bootstrap.job) || !is_name(bootstrap.host)) return wrong("job or host is no name");
  if (bootstrap.scratch.empty() || bootstrap.scratch.front() != '/') {
    return wrong("scratch is no absolute path");
  }
  if (bootstrap.addresses.empty()) return wrong("there is no address to dial");
  return bootstrap;
}

}  // namespace dlaunch::protocol
