#include "supervisor/host/io/bootstrap.h"

#include <nlohmann/json.hpp>

namespace dlaunch::supervisor::host {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos &&
         text.find('\0') == std::string::npos;
}

}  // namespace

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
    bootstrap.build = json.value("build", "");
    bootstrap.secret_hex = json.at("secret");
    for (const auto& entry : json.at("addresses")) {
      bootstrap.addresses.push_back({entry.at("address"), entry.at("port")});
    }
    bootstrap.scratch = json.at("scratch");
    bootstrap.lease =
        nanoseconds(static_cast<std::int64_t>(json.value("lease_seconds", 60.0) * 1e9));
    bootstrap.stop_on_lease_end = json.value("on_lease_end", "stop") != "keep";
    bootstrap.data_address = json.value("data_address", "");
    bootstrap.data_interface = json.value("data_interface", "");
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

}  // namespace dlaunch::supervisor::host
