#include "launcher/io/ssh_settings.h"

#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <map>

#include "launcher/io/child.h"
#include "launcher/launch/ssh_words.h"

namespace dlaunch::launcher::io {
namespace {

// `ssh -G` prints about 5 KiB; long algorithm lists stay far below this.
constexpr std::size_t kOutputBytesMax = std::size_t{256} << 10;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_quotes = false;
  for (const char letter : text) {
    if (letter == '"') {
      in_quotes = !in_quotes;
    } else if (letter == ' ' && !in_quotes) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += letter;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

std::string expand_home(std::string path, const std::string& home) {
  if (path == "~") return home;
  return path.starts_with("~/") ? home + path.substr(1) : path;
}

/// For ssh's own command line inside a ProxyCommand.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text)
    result += letter == '\'' ? std::string(R"('\'')") : std::string(1, letter);
  return result + "'";
}

std::string home_directory() {
  // As OpenSSH does: the password file, not $HOME.
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_dir : "";
}

using Lines = std::multimap<std::string, std::string, std::less<>>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    const auto space = line.find(' ');
    if (space != std::string_view::npos) {
      lines.emplace(line.substr(0, space), line.substr(space + 1));
    }
    if (newline == std::string_view::npos) break;
    text.remove_prefix(newline + 1);
  }
  return lines;
}

std::string value_of(const Lines& lines, std::string_view key) {
  const auto found = lines.find(key);
  return found == lines.end() ? std::string() : found->second;
}

void read_known_hosts(const Lines& lines, const std::string& home, SshSettings& settings) {
  for (const char* key : {"userknownhostsfile", "globalknownhostsfile"}) {
    for (const std::string& word : words_of(value_of(lines, key))) {
      if (word == "none" || word == "/dev/null") continue;
      settings.known_hosts.push_back(expand_home(word, home));
    }
  }
  const auto user_files = words_of(value_of(lines, "userknownhostsfile"));
  if (!user_files.empty() && user_files[0] != "none") {
    settings.known_hosts_new = expand_home(user_files[0], home);
  }
}

/// OpenSSH's tokens. Host names and users that could be read as an option or by the shell are not
/// put into a command.
std::string expand_tokens(const std::string& text, const SshSettings& settings,
                          const std::string& home, const std::string& original) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      result += text[at];
      continue;
    }
    switch (text[++at]) {
      case 'h':
        result += settings.host_name;
        break;
      case 'p':
        result += std::to_string(settings.port);
        break;
      case 'r':
        result += settings.user;
        break;
      case 'n':
        result += original;
        break;
      case 'd':
        result += home;
        break;
      case '%':
        result += '%';
        break;
      default:
        result += std::string("%") + text[at];
    }
  }
  return result;
}

std::string proxy_of(const Lines& lines, const SshSettings& settings, const std::string& home) {
  const std::string command = value_of(lines, "proxycommand");
  if (!command.empty() && command != "none") {
    return expand_tokens(command, settings, home, value_of(lines, "host"));
  }
  const std::string jump = value_of(lines, "proxyjump");
  if (jump.empty() || jump == "none") return "";
  // OpenSSH's own way: all but the last hop become -J of the last.
  const auto comma = jump.rfind(',');
  const std::string hop = comma == std::string::npos ? jump : jump.substr(comma + 1);
  std::string text = "exec ssh -o BatchMode=yes ";
  if (comma != std::string::npos) text += "-J " + quoted(jump.substr(0, comma)) + " ";
  text += "-W " + quoted("[" + settings.host_name + "]:" + std::to_string(settings.port));
  return text + " -- " + quoted(hop.starts_with("ssh://") ? hop : "ssh://" + hop);
}

bool is_harmless(const std::string& name) {
  constexpr std::string_view kForbidden = "'`\"$\\;&<>|(){}*? \t\n";
  return !name.starts_with('-') && name.find_first_of(kForbidden) == std::string::npos;
}

}  // namespace

SshSettings parse_settings(std::string_view text, const std::string& home) {
  const Lines lines = lines_of(text);
  SshSettings settings;
  settings.host_name = value_of(lines, "hostname");
  const std::string port = value_of(lines, "port");
  std::from_chars(port.data(), port.data() + port.size(), settings.port);
  settings.user = value_of(lines, "user");
  const auto [first, last] = lines.equal_range("identityfile");
  for (auto line = first; line != last; ++line) {
    const std::string path = expand_home(line->second, home);
    settings.identity_files.push_back(expand_tokens(path, settings, home, value_of(lines, "host")));
  }
  settings.identities_only = value_of(lines, "identitiesonly") == "yes";
  settings.identity_agent = expand_home(value_of(lines, "identityagent"), home);
  read_known_hosts(lines, home, settings);
  settings.host_key_alias = value_of(lines, "hostkeyalias");
  settings.proxy_command = proxy_of(lines, settings, home);
  settings.beyond_libssh = launch::beyond_libssh(text);
  return settings;
}

Result<SshText> ask_ssh(const SshWish& wish, bool with_log, const Deadline& deadline) {
  for (const std::string& name : {wish.address, wish.user, wish.jump}) {
    if (!is_harmless(name)) {
      return failure(std::errc::invalid_argument, "\"" + name + "\" is not a name to dial");
    }
  }
  std::vector<std::string> argv{"ssh", "-G"};
  if (with_log) argv.emplace_back("-v");
  if (wish.port) argv.insert(argv.end(), {"-p", std::to_string(*wish.port)});
  if (!wish.user.empty()) argv.insert(argv.end(), {"-l", wish.user});
  if (!wish.jump.empty()) argv.insert(argv.end(), {"-J", wish.jump});
  argv.insert(argv.end(), {"--", wish.address});
  auto answer = ask(argv, deadline, kOutputBytesMax);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->code != 0) {
    // Without the log there is nothing but the reason.
    if (with_log) return ask_ssh(wish, false, deadline);
    return failure(std::errc::invalid_argument, "`ssh -G` says: " + answer->errors);
  }
  return SshText{std::move(answer->output), std::move(answer->errors)};
}

Result<SshSettings> settings_from(const std::string& text, const SshWish& wish) {
  const std::string home = home_directory();
  SshSettings settings = parse_settings(text, home);
  if (!wish.identity.empty()) {
    settings.identity_files = {expand_home(wish.identity, home)};
    settings.identities_only = true;
  }
  if (!is_harmless(settings.host_name)) {
    return failure(std::errc::invalid_argument,
                   "HostName \"" + settings.host_name + "\" is not a name to dial");
  }
  return settings;
}

Result<SshSettings> read_settings(const SshWish& wish, const Deadline& deadline) {
  const auto said = ask_ssh(wish, false, deadline);
  if (!said) return tl::unexpected(said.error());
  return settings_from(said->settings, wish);
}

}  // namespace dlaunch::launcher::io
