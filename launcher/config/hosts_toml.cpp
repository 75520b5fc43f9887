// hosts.toml.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "launcher/config/host_range.h"
#include "launcher/config/hosts_file.h"
#include "launcher/config/toml_reader.h"

namespace dlaunch::launcher::config {
namespace {

/// The keys that [defaults] and [[host]] share; `name` and `address` stay unexpanded.
void read_host(TableReader& reader, HostSpec& host) {
  reader.read("name", host.name);
  reader.read("address", host.address);
  reader.read("data_address", host.data_address);
  reader.read("data_interface", host.data_interface);
  reader.read("user", host.user);
  reader.read("port", host.port, 1, 65'535);
  reader.read("identity", host.identity);
  reader.read("jump", host.jump);
  reader.read("rack", host.rack);
  reader.read("scratch", host.scratch);
  reader.read("trainer", host.trainer);
  reader.read("spare", host.spare);
  std::string transport = host.transport == Transport::local ? "local" : "ssh";
  reader.one_of("transport", transport, {"ssh", "local"});
  host.transport = transport == "local" ? Transport::local : Transport::ssh;
}

void read_workers(TableReader& reader, const toml::table* table, HostSpec& host) {
  const auto* node = table == nullptr ? nullptr : table->get("workers");
  if (node != nullptr && node->value_exact<std::string>() == "auto") {
    (void)reader.find("workers");
    host.workers.reset();
    return;
  }
  std::uint32_t workers = 0;
  reader.read("workers", workers, 1, 1024);
  if (workers > 0) host.workers = workers;
}

void read_table(const toml::table* table, const std::string& path, Problems& problems,
                HostSpec& host) {
  TableReader reader(table, path, problems);
  read_host(reader, host);
  read_workers(reader, table, host);
  TableReader expect(reader.table("expect"), path + ".expect", problems);
  expect.read("gpus", host.expect.gpus, 0);
  expect.read("ib_ports", host.expect.ib_ports, 0);
  expect.read("ib_rate", host.expect.ib_rate, 0);
  expect.finish();
  reader.finish();
}

struct Expanded {
  std::vector<std::string> names, addresses, data_addresses;
};

/// Ranges of name, address and data_address run in step.
std::optional<Expanded> expand(const HostSpec& host, const toml::table& table, Problems& problems) {
  Expanded expanded;
  const std::array<std::pair<const char*, std::pair<const std::string*, std::vector<std::string>*>>,
                   3>
      fields = {{{"name", {&host.name, &expanded.names}},
                 {"address", {&host.address, &expanded.addresses}},
                 {"data_address", {&host.data_address, &expanded.data_addresses}}}};
  for (const auto& [key, field] : fields) {
    if (field.first->empty()) continue;
    const auto* node = table.get(key);
    const auto where = node == nullptr ? table.source() : node->source();
    auto values = expand_range(*field.first);
    if (!values) {
      problems.add(where, std::string("`host.") + key + "` " + values.error().doing);
      return std::nullopt;
    }
    *field.second = std::move(*values);
    if (field.second->size() != expanded.names.size()) {
      problems.add(where,
                   std::string("`host.") + key + "` names " + std::to_string(field.second->size()) +
                       " hosts, `host.name` " + std::to_string(expanded.names.size()),
                   "expected ranges of the same length");
      return std::nullopt;
    }
  }
  return expanded;
}

bool is_host_name(const std::string& name) {
  return name.size() <= 253 && name.front() != '-' && name.front() != '.' &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:") ==
             std::string::npos;
}

void add_hosts(const HostSpec& host, const toml::table& table, Problems& problems, HostsFile& file,
               std::set<std::string>& seen) {
  if (host.name.empty()) {
    problems.add(table.source(), "a [[host]] has no name", "expected name = \"gpu01\"");
    return;
  }
  if (!host.data_address.empty() && !host.data_interface.empty()) {
    problems.add(table.source(), "data_address and data_interface exclude each other");
  }
  const auto expanded = expand(host, table, problems);
  if (!expanded) return;
  const auto* node = table.get("name");
  const auto where = node == nullptr ? table.source() : node->source();
  if (file.hosts.size() + expanded->names.size() > kHostNamesMax) {
    problems.add(where, "the file names more than 65,536 hosts");
    return;
  }
  for (std::size_t i = 0; i < expanded->names.size(); ++i) {
    auto one = host;
    one.name = expanded->names[i];
    one.address = expanded->addresses.empty() ? one.name : expanded->addresses[i];
    if (!expanded->data_addresses.empty()) one.data_address = expanded->data_addresses[i];
    if (!is_host_name(one.name)) {
      problems.add(where, "`" + one.name + "` is no host name");
      return;
    }
    if (!seen.insert(one.name).second) {
      problems.add(where, "the host `" + one.name + "` is named twice");
      continue;
    }
    file.hosts.push_back(std::move(one));
  }
}

void read_ports(TableReader& reader, const toml::table* table, NetworkSpec& network) {
  std::string ports;
  reader.read("ports", ports);
  if (ports.empty()) return;
  unsigned first = 0, last = 0;
  char rest = 0;
  const bool good = std::sscanf(ports.c_str(), "%u-%u%c", &first, &last, &rest) == 2 && first > 0 &&
                    first <= last && last <= 65'535;
  if (good) {
    network.port_first = first;
    network.port_last = last;
  } else {
    reader.wrong(*table->get("ports"), "ports", "is no range of ports", "expected \"29600-29899\"");
  }
}

void read_network(const toml::table* table, Problems& problems, NetworkSpec& network) {
  TableReader reader(table, "network", problems);
  reader.read("controller_address", network.controller_address);
  read_ports(reader, table, network);
  reader.one_of("control", network.control, {"auto", "dial"}, {"ssh"});
  std::string host_keys = "strict";
  reader.one_of("host_keys", host_keys, {"strict", "accept-new"});
  network.host_keys = host_keys == "strict" ? HostKeys::strict : HostKeys::accept_new;
  reader.one_of("ssh", network.ssh, {"auto", "libssh"}, {"program"});
  reader.read("connect_timeout", network.connect_timeout);
  reader.finish();
}

}  // namespace

HostsOrProblems parse_hosts_toml(std::string_view text, const std::string& file) {
  Problems problems(file);
  const auto root = parse_toml(text, file, problems);
  if (!root) return problems.take();
  HostsFile result;
  TableReader reader(&*root, "", problems);
  HostSpec defaults;
  read_table(reader.table("defaults"), "defaults", problems, defaults);
  if (!defaults.name.empty()) problems.add("[defaults] cannot have a name");
  read_network(reader.table("network"), problems, result.network);
  std::set<std::string> seen;
  const auto* hosts = reader.find("host");
  const auto* list = hosts == nullptr ? nullptr : hosts->as_array();
  if (hosts != nullptr && list == nullptr) {
    problems.add(hosts->source(), "`host` is no list of tables", "expected [[host]]");
  }
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const auto* table = list->get(i)->as_table();
    if (table == nullptr) {
      problems.add(list->get(i)->source(), "`host` is no list of tables", "expected [[host]]");
      continue;
    }
    auto host = defaults;
    read_table(table, "host", problems, host);
    add_hosts(host, *table, problems, result, seen);
  }
  reader.finish();
  if (problems.empty() && result.hosts.empty()) problems.add("there is no [[host]] in it");
  if (problems.empty() && std::all_of(result.hosts.begin(), result.hosts.end(),
                                      [](const HostSpec& host) { return host.spare; })) {
    problems.add("all hosts are spares", "expected at least one that trains");
  }
  if (!problems.empty()) return problems.take();
  return result;
}

}  // namespace dlaunch::launcher::config
