#include "protocol/bootstrap.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "protocol/json_fields.h"
#include "protocol/json_text.h"

namespace dlaunch::protocol {
namespace {

bool is_name(const std::string& text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos &&
         text.find('\0') == std::string::npos;
}

constexpr std::array<const char*, 3> kControls = {"auto", "dial", "ssh"};

void read_addresses(JsonFields& fields, Bootstrap& bootstrap) {
  const auto* list = fields.nested("addresses", /*object=*/false);
  if (list == nullptr) return;
  for (const auto& item : *list) {
    if (!item.is_object()) return fields.add_error("an entry of \"addresses\" is no object");
    JsonFields entry(item);
    bootstrap.addresses.push_back({entry.text("address"), entry.whole<std::uint16_t>("port")});
    if (!entry.error().empty()) fields.add_error("in \"addresses\": " + entry.error());
  }
}

void read_environment(JsonFields& fields, Bootstrap& bootstrap) {
  if (!fields.has("environment")) return;
  const auto* variables = fields.nested("environment", /*object=*/true);
  if (variables == nullptr) return;
  for (const auto& [name, value] : variables->items()) {
    if (!value.is_string()) return fields.add_error("a value in \"environment\" is no string");
    bootstrap.environment.emplace(name, value.get<std::string>());
  }
}

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
  const auto wrong = [](const std::string& what) {
    return failure(std::errc::bad_message, "reading the bootstrap: " + what);
  };
  const auto json = read_json(line);
  if (!json.is_object()) return wrong("it is no JSON object");
  JsonFields fields(json);
  Bootstrap bootstrap;
  bootstrap.job = fields.text("job");
  bootstrap.host = fields.text("host");
  bootstrap.host_id = HostId{fields.whole<std::uint32_t>("host_id")};
  if (fields.has("incarnation")) {
    bootstrap.incarnation = Incarnation{fields.whole<std::uint64_t>("incarnation")};
  }
  if (fields.has("build")) bootstrap.build = fields.text("build");
  bootstrap.first = fields.has("first") && fields.boolean("first");
  bootstrap.secret_hex = fields.text("secret");
  read_addresses(fields, bootstrap);
  bootstrap.scratch = fields.text("scratch");
  if (fields.has("lease_seconds")) {
    bootstrap.lease = from_seconds(fields.number("lease_seconds"));
  }
  bootstrap.stop_on_lease_end =
      !fields.has("on_lease_end") || fields.text("on_lease_end") != "keep";
  read_environment(fields, bootstrap);
  if (fields.has("data_address")) bootstrap.data_address = fields.text("data_address");
  if (fields.has("data_interface")) bootstrap.data_interface = fields.text("data_interface");
  bootstrap.login_environment =
      fields.has("login_environment") && fields.boolean("login_environment");
  if (fields.has("control")) {
    const auto control = control_named(fields.text("control"));
    if (!control) fields.add_error("control is none of auto, dial, ssh");
    bootstrap.control = control.value_or(Control::automatic);
  }
  if (!fields.error().empty()) return wrong(fields.error());
  if (!is_name(bootstrap.job) || !is_name(bootstrap.host)) return wrong("job or host is no name");
  if (bootstrap.scratch.empty() || bootstrap.scratch.front() != '/') {
    return wrong("scratch is no absolute path");
  }
  if (bootstrap.addresses.empty()) return wrong("there is no address to dial");
  return bootstrap;
}

}  // namespace dlaunch::protocol
