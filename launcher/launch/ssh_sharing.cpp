#include "launcher/launch/ssh_sharing.h"

#include <algorithm>
#include <cctype>

namespace dlaunch::launcher::launch {
namespace {

constexpr std::string_view kReading = "debug1: Reading configuration data ";
constexpr std::string_view kBlank = " \t\r\f";

template <class Use>
void each_line(std::string_view text, Use use) {
  while (!text.empty()) {
    const auto newline = text.find('\n');
    use(text.substr(0, newline));
    if (newline == std::string_view::npos) return;
    text.remove_prefix(newline + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_word(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

/// The host's name as a whole word: "h1" is not in "ssh1".
bool mentions(std::string_view line, std::string_view host) {
  for (auto at = line.find(host); at != std::string_view::npos; at = line.find(host, at + 1)) {
    const auto after = at + host.size();
    if ((at == 0 || !is_word(line[at - 1])) && (after == line.size() || !is_word(line[after]))) {
      return true;
    }
  }
  return false;
}

bool matches_one(std::string_view pattern, std::string_view host) {
  if (pattern.empty()) return host.empty();
  if (pattern[0] == '*') {
    for (std::size_t taken = 0; taken <= host.size(); ++taken) {
      if (matches_one(pattern.substr(1), host.substr(taken))) return true;
    }
    return false;
  }
  if (host.empty() || (pattern[0] != '?' && pattern[0] != host[0])) return false;
  return matches_one(pattern.substr(1), host.substr(1));
}

}  // namespace

std::optional<std::vector<std::string>> files_read(std::string_view log) {
  if (!log.starts_with("OpenSSH_")) return std::nullopt;
  std::vector<std::string> files;
  each_line(log, [&](std::string_view line) {
    if (line.starts_with(kReading)) files.emplace_back(trimmed(line.substr(kReading.size())));
  });
  return files;
}

bool add_host_lines(std::string_view file, std::vector<std::string>& host_lines) {
  bool understood = true;
  each_line(file, [&](std::string_view line) {
    line = trimmed(line);
    const auto end = std::min(line.find_first_of(" \t="), line.size());
    std::string key(line.substr(0, end));
    for (char& letter : key) {
      letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    if (key == "match" || key == "canonicalizehostname") understood = false;
    if (key != "host" && key != "\"host\"") return;
    const auto value = line.find_first_not_of(" \t=", end);
    const auto patterns = value == std::string_view::npos ? "" : line.substr(value);
    // Quotes, escapes and many stars: OpenSSH itself is asked then.
    if (patterns.find_first_of("\"'\\#") != std::string_view::npos ||
        std::count(patterns.begin(), patterns.end(), '*') > 8) {
      understood = false;
    }
    host_lines.emplace_back(patterns);
  });
  return understood;
}

bool matches(std::string_view patterns, std::string_view host) {
  bool found = false;
  while (!(patterns = trimmed(patterns)).empty()) {
    const auto end = std::min(patterns.find_first_of(kBlank), patterns.size());
    const auto pattern = patterns.substr(0, end);
    patterns.remove_prefix(end);
    if (pattern.starts_with('!')) {
      if (matches_one(pattern.substr(1), host)) return false;
    } else {
      found = found || matches_one(pattern, host);
    }
  }
  return found;
}

std::optional<std::string> settings_for(const SshAnswer& answer, const std::string& host) {
  if (host == answer.host) return answer.settings;
  if (!answer.can_be_shared) return std::nullopt;
  const auto plain = [](const std::string& name) {
    return std::none_of(name.begin(), name.end(), [](unsigned char letter) {
      return std::isupper(letter) != 0 || std::isspace(letter) != 0;
    });
  };
  if (!plain(host) || !plain(answer.host)) return std::nullopt;
  for (const auto& line : answer.host_lines) {
    if (matches(line, host) != matches(line, answer.host)) return std::nullopt;
  }
  std::optional<std::string> settings = std::string();
  int names = 0;
  each_line(answer.settings, [&](std::string_view line) {
    if (!settings) return;
    if (line == "host " + answer.host || line == "hostname " + answer.host) {
      *settings += std::string(line.substr(0, line.find(' ') + 1)) + host + "\n";
      names += line.starts_with("hostname") ? 1 : 0;
    } else if (mentions(line, answer.host)) {
      settings.reset();
    } else {
      *settings += std::string(line) + "\n";
    }
  });
  // Else HostName says another name: it may be any function of the host's.
  return names == 1 ? settings : std::nullopt;
}

}  // namespace dlaunch::launcher::launch
