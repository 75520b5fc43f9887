// Host lists that are not TOML: one host a line, as Open MPI, MPICH, DeepSpeed and batch systems
// write them; and Slurm's environment.
#include <algorithm>
#include <charconv>
#include <utility>

#include "launcher/config/address.h"
#include "launcher/config/host_range.h"
#include "launcher/config/hosts_file.h"
#include "launcher/config/section.h"

namespace dlaunch::launcher::config {
namespace {

constexpr std::uint32_t kSlotsMax = 1024;
constexpr std::uint32_t kPortMax = 65'535;
constexpr std::string_view kBlanks = " \t\r";

std::optional<std::uint32_t> number(std::string_view digits, std::uint32_t max) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool good = error == std::errc{} && end == digits.data() + digits.size();
  return good && value > 0 && value <= max ? std::optional(value) : std::nullopt;
}

/// Blanks out comments: # and // to the end of the line, /* … */ over lines.
std::string without_comments(std::string_view text) {
  std::string result(text);
  bool block = false, line = false;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto two = text.substr(i, 2);
    if (text[i] == '\n') {
      line = false;
    } else if (block) {
      if (two == "*/") {
        block = false;
        result[i + 1] = ' ';
        result[i++] = ' ';
        continue;
      }
      result[i] = ' ';
    } else {
      line = line || text[i] == '#' || two == "//";
      block = !line && two == "/*";
      if (line || block) result[i] = ' ';
    }
  }
  return result;
}

/// Reads the lines one by one.
class HostLines {
 public:
  explicit HostLines(const std::string& file) : reading_(file) {}

  HostsOrProblems read(std::string_view text) {
    const auto bare = without_comments(text);
    std::string_view rest = bare;
    while (!rest.empty() && !full_) {
      const auto line = rest.substr(0, rest.find('\n'));
      ++line_;
      read_line(line);
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    if (hosts_.empty() && reading_.empty()) {
      reading_.add(kFileBegin, "there are no hosts",
                   "expected one host a line, or a hosts.toml with [[host]]");
    }
    if (!reading_.empty()) return reading_.take();
    return HostsFile{std::move(hosts_), {}};
  }

 private:
  struct Words {
    std::optional<std::uint32_t> slots;
    std::uint32_t port = 0;
    std::string user;
  };

  void wrong(std::size_t column, std::string what, std::string expected) {
    toml::source_region place;
    place.begin = {line_, static_cast<toml::source_index>(column + 1)};
    reading_.add(place, std::move(what), std::move(expected));
  }

  void read_line(std::string_view line) {
    auto at = line.find_first_not_of(kBlanks);
    if (at == std::string_view::npos) return;
    const auto first_at = at;
    auto end = std::min(line.find_first_of(kBlanks, at), line.size());
    const auto first = line.substr(at, end - at);
    Words words;
    while ((at = line.find_first_not_of(kBlanks, end)) != std::string_view::npos) {
      end = std::min(line.find_first_of(kBlanks, at), line.size());
      read_word(line.substr(at, end - at), at, words);
    }
    read_host(first, first_at, std::move(words));
  }

  void read_word(std::string_view word, std::size_t at, Words& words) {
    const auto equals = word.find('=');
    std::string key(word.substr(0, equals));
    std::replace(key.begin(), key.end(), '-', '_');
    const auto value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    if (key == "slots" || key == "cpu" || key == "cpus" || key == "count") {
      words.slots = number(value, kSlotsMax);
      if (!words.slots) {
        wrong(at, "`" + std::string(word) + "`",
              "expected slots=8, at most " + std::to_string(kSlotsMax));
      }
    } else if (key == "port") {
      words.port = number(value, kPortMax).value_or(0);
      if (words.port == 0) wrong(at, "`" + std::string(word) + "`", "expected port=22");
    } else if (key == "user" || key == "username" || key == "user_name") {
      words.user = value;
      if (!is_user_name(value)) wrong(at, "`" + std::string(word) + "`", "expected user=ann");
    } else if (key == "max_slots" || key == "slots_max") {
      if (!number(value, UINT32_MAX)) {
        wrong(at, "`" + std::string(word) + "`", "expected max_slots=16");
      }
    } else {
      wrong(at, "unknown word `" + std::string(word) + "`",
            "expected slots=, max_slots=, port= or user= behind a host");
    }
  }

  void read_host(std::string_view text, std::size_t at, Words words) {
    if (text.starts_with("^") || text.starts_with("+")) {
      return wrong(at, "`" + std::string(text) + "` is a relative or excluded host",
                   "expected names of hosts; dlaunch takes the list as it is");
    }
    HostSpec host;
    host.user = words.user;
    host.port = words.port;
    if (const auto sign = text.find('@'); sign != std::string_view::npos) {
      host.user = text.substr(0, sign);
      if (!is_user_name(host.user)) {
        return wrong(at, "`" + std::string(text) + "` has no good user's name",
                     "expected ann@gpu01");
      }
      text.remove_prefix(sign + 1);
    }
    // More than one colon is an IPv6 address.
    const auto colon = text.find(':');
    if (colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos) {
      words.slots = number(text.substr(colon + 1), kSlotsMax);
      if (!words.slots) {
        return wrong(at, "`" + std::string(text) + "` has no number of slots behind the colon",
                     "expected gpu01:8");
      }
      text = text.substr(0, colon);
    }
    host.workers = words.slots;
    const auto names = expand_range(text);
    if (!names) return wrong(at, names.error().text(), "expected a host's name");
    add(*names, at, host);
  }

  void add(const std::vector<std::string>& names, std::size_t at, const HostSpec& host) {
    if (hosts_.size() + names.size() > kHostNamesMax) {
      full_ = true;
      return wrong(at, "the hosts come to more than " + std::to_string(kHostNamesMax),
                   "expected at most that many");
    }
    for (const auto& name : names) {
      if (!is_address(name)) {
        return wrong(at, "`" + name + "` is no name of a host", "expected one like gpu01");
      }
      const auto [known, is_first] = places_.emplace(name, hosts_.size());
      if (is_first) {
        hosts_.push_back(host);
        hosts_.back().name = hosts_.back().address = name;
        bare_.push_back(!host.workers);
      } else if (!host.workers && bare_[known->second]) {
        // A line for each slot, as Open MPI and PBS have it.
        hosts_[known->second].workers = hosts_[known->second].workers.value_or(1) + 1;
      } else {
        return wrong(at, "the host " + name + " is named twice", "expected one line for each host");
      }
    }
  }

  Reading reading_;
  std::uint32_t line_ = 0;
  std::vector<HostSpec> hosts_;
  std::vector<bool> bare_;  ///< named without slots
  std::map<std::string, std::size_t> places_;
  bool full_ = false;
};

/// "8(x2),4" → 8 8 4; nullopt: not such a list, or longer than `count_max`.
std::optional<std::vector<std::uint32_t>> repeated(std::string_view text, std::size_t count_max) {
  std::vector<std::uint32_t> values;
  while (true) {
    const auto part = text.substr(0, text.find(','));
    const auto bracket = part.find("(x");
    const auto value = number(part.substr(0, bracket), kSlotsMax);
    std::optional<std::uint32_t> times = 1;
    if (bracket != std::string_view::npos) {
      if (!part.ends_with(")")) return std::nullopt;
      times = number(part.substr(bracket + 2, part.size() - bracket - 3), kHostNamesMax);
    }
    if (!value || !times || values.size() + *times > count_max) return std::nullopt;
    values.insert(values.end(), *times, *value);
    if (part.size() == text.size()) return values;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

HostsOrProblems parse_host_lines(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  Reading reading(file);
  if (text.size() > kConfigBytesMax) {
    reading.add("the file has " + std::to_string(text.size()) + " bytes",
                "expected at most " + std::to_string(kConfigBytesMax) + "; is it the right file?");
    return reading.take();
  }
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return HostLines(file).read(text);
}

HostsOrProblems hosts_of_slurm(const std::map<std::string, std::string>& environment) {
  constexpr const char* kNodes = "SLURM_JOB_NODELIST";
  constexpr const char* kTasks = "SLURM_TASKS_PER_NODE";
  Reading reading("environment");
  const auto nodes = environment.find(kNodes);
  if (nodes == environment.end() || nodes->second.empty()) {
    reading.add(std::string(kNodes) + " is not set",
                "expected to run within an allocation: sbatch or salloc");
    return reading.take();
  }
  const auto names = expand_list(nodes->second);
  if (!names) {
    reading.add(std::string(kNodes) + ": " + names.error().text(), "expected node[01-16,20]");
    return reading.take();
  }
  const auto tasks = environment.find(kTasks);
  std::vector<std::uint32_t> workers(names->size(), 1);
  if (tasks != environment.end()) {
    const auto given = repeated(tasks->second, names->size());
    if (!given || given->size() != names->size()) {
      reading.add(std::string(kTasks) + " is \"" + tasks->second + "\"",
                  "expected a number for each of " + std::to_string(names->size()) +
                      " nodes, like 8(x2),4");
      return reading.take();
    }
    workers = *given;
  }
  HostsFile file;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names->size(); ++i) {
    HostSpec host;
    host.name = host.address = (*names)[i];
    // One task per node is how a job says "this program starts its own processes".
    if (workers[i] > 1) host.workers = workers[i];
    if (!is_host_name(host.name) || !seen.insert(host.name).second) {
      reading.add(std::string(kNodes) + ": \"" + host.name + "\" is named twice or no name");
    }
    file.hosts.push_back(std::move(host));
  }
  if (!reading.empty()) return reading.take();
  return file;
}

}  // namespace dlaunch::launcher::config
