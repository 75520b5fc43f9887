#include "launcher/config/hosts_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "launcher/config/address.h"
#include "launcher/config/host_range.h"
#include "launcher/config/hosts_toml.h"
#include "launcher/config/section.h"

namespace dlaunch::launcher::config {
namespace {

constexpr std::int64_t kWorkersMax = 1024;
constexpr std::int64_t kPortMax = 65'535;
constexpr std::uint32_t kPortFirstMin = 1024;
constexpr std::uint32_t kPortsMin = 16;
constexpr nanoseconds kConnectTimeoutMin = 100ms;

using Good = bool (*)(std::string_view);

void checked(Section& section, const char* key, std::string& into, Good good,
             const std::string& expected) {
  std::string value;
  section.text(key, value);
  if (value.empty() && !section.has(key)) return;
  if (const auto* node = section.find(key); node->is_string()) {
    if (good(value)) {
      into = std::move(value);
    } else {
      section.wrong(key, "`" + std::string(key) + "` is \"" + value + "\"", "expected " + expected);
    }
  }
}

bool is_path(std::string_view text) {
  return text.starts_with("/") || text.starts_with("~/") || text == "~";
}

bool is_absolute(std::string_view text) { return text.starts_with("/"); }

void read_workers(Section& section, HostSpec& host) {
  const auto* node = section.find("workers");
  if (node == nullptr) return;
  if (const auto* text = node->as_string()) {
    if (text->get() == "auto") {
      host.workers.reset();
    } else {
      section.wrong("workers", "`workers` is \"" + text->get() + "\"",
                    "expected \"auto\" or a whole number");
    }
    return;
  }
  std::uint32_t workers = 0;
  section.whole("workers", workers, 1, kWorkersMax);
  if (workers > 0) host.workers = workers;
}

void read_expect(Section& section, HostSpec& host) {
  auto expect = section.section("expect");
  expect.whole("gpus", host.expect.gpus, 0, kWorkersMax);
  expect.later("ib_ports");
  expect.later("ib_rate");
  expect.finish();
}

/// Everything but the names and addresses, which are expanded.
void read_host(Section& section, HostSpec& host) {
  std::string transport = host.transport == Transport::local ? "local" : "ssh";
  section.choice("transport", transport, {"ssh", "local"});
  host.transport = transport == "local" ? Transport::local : Transport::ssh;
  checked(section, "user", host.user, is_user_name, "a user's name");
  section.whole("port", host.port, 1, kPortMax);
  section.text("identity", host.identity);
  checked(section, "jump", host.jump, is_jump, "hosts as SSH's ProxyJump has them: user@host:22");
  section.later("rack");
  checked(section, "scratch", host.scratch, is_path, "an absolute path, or one below ~/");
  checked(section, "trainer", host.trainer, is_absolute, "an absolute path on that host");
  checked(section, "data_interface", host.data_interface, is_interface_name,
          "an interface like \"ib0\", at most 15 characters");
  section.flag("spare", host.spare);
  read_workers(section, host);
  read_expect(section, host);
}

void refuse_ineffective(Section& section, const HostSpec& host) {
  if (host.transport == Transport::local) {
    for (const char* key : {"address", "user", "port", "identity", "jump"}) {
      if (section.has(key)) {
        section.wrong(key,
                      "`" + std::string(key) + "` has no effect on a host with transport " +
                          "\"local\": it is this machine",
                      "leave it out");
      }
    }
  }
  if (section.has("data_address") && section.has("data_interface")) {
    section.wrong("data_interface", "`data_address` and `data_interface` are both given",
                  "expected one of them");
  }
}

/// What a local host has from [defaults] and no use for.
void leave_out_ssh(HostSpec& host) {
  host.user.clear();
  host.port = 0;
  host.identity.clear();
  host.jump.clear();
}

/// Reads all [[host]] tables, with what they share.
class HostTables {
 public:
  explicit HostTables(std::vector<HostSpec>& hosts) : hosts_(hosts) {}

  void read(Section& section, const HostSpec& defaults) {
    HostSpec host = defaults;
    const auto names = expand(section, "name", is_host_name, "a host's name");
    const auto addresses =
        expand(section, "address", is_address, "a host's name, or an address like 10.0.0.11");
    const auto data =
        expand(section, "data_address", is_numeric_address, "a numeric address like 10.1.0.11");
    read_host(section, host);
    section.finish();
    refuse_ineffective(section, host);
    if (host.transport == Transport::local) leave_out_ssh(host);
    if (!section.has("name")) {
      section.wrong("name", "a [[host]] without `name`", "expected name = \"gpu01\"");
    }
    if (section.has("data_address")) host.data_interface.clear();
    same_count(section, "address", names, addresses);
    same_count(section, "data_address", names, data);
    if (full_ || hosts_.size() + names.size() > kHostNamesMax) {
      if (!std::exchange(full_, true)) {
        section.wrong("name", "the hosts come to more than " + std::to_string(kHostNamesMax),
                      "expected at most that many in all tables together");
      }
      return;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      host.name = names[i];
      host.address = at(addresses, i).value_or(names[i]);
      host.data_address = at(data, i).value_or("");
      check_first(section, names[i]);
      hosts_.push_back(host);
    }
  }
  [[nodiscard]] bool full() const { return full_; }

 private:
  using Texts = std::vector<std::string>;

  Texts expand(Section& section, const char* key, Good good, const std::string& expected) {
    std::string text;
    section.text(key, text);
    if (const auto* node = section.find(key); node == nullptr || !node->is_string() || full_) {
      return {};
    }
    auto texts = expand_range(text);
    if (!texts) {
      section.wrong(key, "`" + std::string(key) + "`: " + texts.error().text(),
                    "expected " + expected + ", with ranges like gpu[01-04]");
      return {};
    }
    const auto bad = std::find_if_not(texts->begin(), texts->end(), good);
    if (bad == texts->end()) return std::move(*texts);
    section.wrong(key, "`" + std::string(key) + "` is \"" + *bad + "\"", "expected " + expected);
    return {};
  }

  static void same_count(Section& section, const char* key, const Texts& names,
                         const Texts& others) {
    if (names.empty() || others.size() <= 1 || others.size() == names.size()) return;
    section.wrong(key,
                  "`" + std::string(key) + "` names " + std::to_string(others.size()) +
                      " hosts, `name` names " + std::to_string(names.size()),
                  "expected as many");
  }

  static std::optional<std::string> at(const Texts& texts, std::size_t index) {
    if (texts.size() == 1) return texts.front();
    return index < texts.size() ? std::optional(texts[index]) : std::nullopt;
  }

  void check_first(Section& section, const std::string& name) {
    const auto* node = section.find("name");
    const auto line = node == nullptr ? 0 : node->source().begin.line;
    const auto [first, is_first] = lines_.emplace(name, line);
    if (is_first) return;
    section.wrong("name", "the host " + name + " is named twice",
                  "first named in line " + std::to_string(first->second));
  }

  std::vector<HostSpec>& hosts_;
  std::map<std::string, std::uint32_t> lines_;
  bool full_ = false;
};

void read_ports(Section& section, NetworkSpec& network) {
  std::string text;
  section.text("ports", text);
  if (text.empty()) return;
  std::uint32_t first = 0, last = 0;
  const auto* end = text.data() + text.size();
  const auto begin = std::from_chars(text.data(), end, first);
  const bool dash = begin.ec == std::errc{} && begin.ptr != end && *begin.ptr == '-';
  const auto rest = dash ? std::from_chars(begin.ptr + 1, end, last) : begin;
  const bool good = dash && rest.ec == std::errc{} && rest.ptr == end && first >= kPortFirstMin &&
                    last <= kPortMax && first + kPortsMin - 1 <= last;
  if (!good) {
    return section.wrong("ports", "`ports` is \"" + text + "\"",
                         "expected a range like \"29600-29899\", from " +
                             std::to_string(kPortFirstMin) + " on, of at least " +
                             std::to_string(kPortsMin) + " ports");
  }
  network.port_first = first;
  network.port_last = last;
}

void read_network(Section section, NetworkSpec& network) {
  checked(section, "controller_address", network.controller_address, is_numeric_address,
          "a numeric address of this machine, like 10.0.0.1");
  read_ports(section, network);
  section.choice("control", network.control, {"auto", "dial", "ssh"});
  std::string keys = "strict";
  section.choice("host_keys", keys, {"strict", "accept-new"});
  network.host_keys = keys == "strict" ? HostKeys::strict : HostKeys::accept_new;
  section.choice("ssh", network.ssh, {"auto", "libssh", "openssh"});
  section.duration("connect_timeout", network.connect_timeout, kConnectTimeoutMin);
  section.finish();
}

void read_defaults(Section section, HostSpec& defaults) {
  for (const char* key : {"name", "address", "data_address"}) {
    if (section.has(key)) {
      section.find(key);
      section.wrong(key, "`" + std::string(key) + "` in [defaults]: hosts cannot share it",
                    "expected it in a [[host]]");
    }
  }
  read_host(section, defaults);
  section.finish();
}

void read_host_array(Section& top, Reading& reading, const HostSpec& defaults, HostsFile& file) {
  const auto* node = top.find("host");
  const auto* array = node == nullptr ? nullptr : node->as_array();
  if (node != nullptr && (array == nullptr || !array->is_homogeneous<toml::table>())) {
    return reading.add(node->source(), "`host` is not made of tables",
                       "expected [[host]], with two brackets");
  }
  HostTables tables(file.hosts);
  const auto count = array == nullptr ? 0 : array->size();
  for (std::size_t i = 0; i < count && !tables.full(); ++i) {
    Section section(reading, "host", array->get_as<toml::table>(i));
    tables.read(section, defaults);
  }
  if (count == 0) reading.add(kFileBegin, "there are no hosts", "expected at least one [[host]]");
  const bool all_spare = std::all_of(file.hosts.begin(), file.hosts.end(),
                                     [](const auto& host) { return host.spare; });
  if (!file.hosts.empty() && all_spare) {
    reading.add(kFileBegin, "all hosts are spares", "expected at least one that trains");
  }
}

bool has_a_table(std::string_view text) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin != std::string_view::npos && line[begin] == '[') return true;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return false;
}

}  // namespace

HostsFile read_hosts(const toml::table& document, Reading& reading) {
  HostsFile file;
  Section top(reading, "", &document);
  HostSpec defaults;
  read_defaults(top.section("defaults"), defaults);
  read_host_array(top, reading, defaults, file);
  read_network(top.section("network"), file.network);
  top.finish();
  return file;
}

HostsOrProblems parse_hosts_toml(std::string_view text, const std::string& file) {
  Reading reading(file);
  const auto document = parse_document(text, kConfigBytesMax, file, reading);
  if (!document) return reading.take();
  auto hosts = read_hosts(*document, reading);
  if (reading.empty()) return hosts;
  return reading.take();
}

HostsOrProblems parse_hosts(std::string_view text, const std::string& file) {
  const bool toml = file.ends_with(".toml") || has_a_table(text);
  return toml ? parse_hosts_toml(text, file) : parse_host_lines(text, file);
}

std::set<std::string> known_host_keys() {
  // One of each section, so that every key is asked for.
  Reading reading("");
  const auto document = toml::parse("[defaults]\n[[host]]\n[network]\n");
  static_cast<void>(read_hosts(document, reading));
  return reading.known;
}

HostsFile this_machine() {
  HostSpec host;
  host.name = host.address = "localhost";
  host.transport = Transport::local;
  return {{host}, {}};
}

}  // namespace dlaunch::launcher::config
