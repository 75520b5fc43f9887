#include "launcher/io/program_shell.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "launcher/io/local_start.h"
#include "launcher/io/ssh_known_hosts.h"
#include "launcher/launch/ssh_words.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

// Says that the login is done; every login shell takes this line.
constexpr const char* kMark = "dlaunch-has-logged-in";
constexpr std::size_t kNoiseBytesMax = std::size_t{64} << 10;

std::vector<std::string> command_line(const SshWish& wish, bool accept_new_host_keys,
                                      const std::string& command, const Deadline& deadline) {
  const auto seconds = std::max<std::int64_t>(1, deadline.left() / 1s);
  std::vector<std::string> words{"ssh", "-T", "-x", "-S", "none"};
  const auto option = [&words](const std::string& text) {
    words.insert(words.end(), {"-o", text});
  };
  option("BatchMode=yes");
  option("ConnectTimeout=" + std::to_string(seconds));
  option("ConnectionAttempts=1");
  option(std::string("StrictHostKeyChecking=") + (accept_new_host_keys ? "accept-new" : "yes"));
  option("RequestTTY=no");
  option("LogLevel=ERROR");
  if (wish.port) words.insert(words.end(), {"-p", std::to_string(*wish.port)});
  if (!wish.user.empty()) words.insert(words.end(), {"-l", wish.user});
  if (!wish.jump.empty()) words.insert(words.end(), {"-J", wish.jump});
  if (!wish.identity.empty()) {
    option("IdentitiesOnly=yes");
    words.insert(words.end(), {"-i", wish.identity});
  }
  words.insert(words.end(), {"--", wish.address, std::string("echo ") + kMark + "; " + command});
  return words;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

Planting<std::unique_ptr<ProgramShell>> ProgramShell::open(const SshWish& wish,
                                                           bool accept_new_host_keys,
                                                           const std::string& command,
                                                           const Deadline& deadline,
                                                           Interrupt& interrupt) {
  auto pipe =
      LocalShell::run(command_line(wish, accept_new_host_keys, command, deadline), interrupt);
  if (!pipe) return tl::unexpected(pipe.error());
  std::unique_ptr<ProgramShell> shell(new ProgramShell(std::move(*pipe)));
  const auto done = shell->await_login(deadline);
  if (!done) return tl::unexpected(done.error());
  return shell;
}

Planting<void> ProgramShell::await_login(const Deadline& deadline) {
  const std::string mark = std::string(kMark) + "\n";
  while (true) {
    const auto found = read_ahead_.find(mark);
    if (found != std::string::npos) {
      read_ahead_.erase(0, found + mark.size());
      return {};
    }
    if (read_ahead_.size() > kNoiseBytesMax) {
      return plant_failure(Cause::agent_failed, "login scripts print without an end");
    }
    const auto bytes = pipe_->read(deadline);
    if (bytes && !bytes->empty()) {
      read_ahead_ += *bytes;
      continue;
    }
    const bool ended = bytes.has_value() || bytes.error().cause == Cause::agent_failed;
    if (!ended) return tl::unexpected(bytes.error());
    const std::string said = pipe_->errors();
    return plant_failure(launch::cause_in(said).value_or(Cause::agent_failed),
                         said.empty() ? "ssh ended without a word" : "ssh says: " + said);
  }
}

Planting<void> ProgramShell::write(std::string_view bytes, const Deadline& deadline) {
  return pipe_->write(bytes, deadline);
}

Planting<std::string> ProgramShell::read(const Deadline& deadline) {
  if (!read_ahead_.empty()) return std::exchange(read_ahead_, "");
  return pipe_->read(deadline);
}

std::string wants_program(const SshSettings& settings) {
  if (!settings.beyond_libssh.empty()) return settings.beyond_libssh;
  const bool alias = !settings.host_key_alias.empty();
  const auto name =
      alias ? settings.host_key_alias : known_hosts_name(settings.host_name, settings.port);
  if (read_known_keys(settings.known_hosts, name).has_authority) {
    return "known_hosts has a host CA (@cert-authority) for it";
  }
  // OpenSSH takes a certificate beside a key without being told.
  for (const auto& path : settings.identity_files) {
    if (exists(path + "-cert.pub")) return path + "-cert.pub is a certificate";
  }
  return "";
}

}  // namespace dlaunch::launcher::io
