#include "launcher/io/open_shell.h"

#include <random>
#include <utility>

#include "launcher/io/local_start.h"
#include "launcher/io/program_shell.h"
#include "launcher/io/ssh_shell.h"
#include "launcher/launch/start_script.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

// `ssh -G` may run commands of the user (Match exec); a login does not wait longer for them.
constexpr nanoseconds kSettingsWithin = 5s;
constexpr std::uint16_t kSshPort = 22;
constexpr int kNonceLetters = 16;

}  // namespace

launch::Where where_of(const HostReach& reach) {
  launch::Where where;
  where.host = reach.name;
  where.address = reach.local ? "this machine" : reach.address;
  where.port = reach.port.value_or(kSshPort);
  where.user = reach.user;
  return where;
}

Planting<std::unique_ptr<StartShell>> open_shell(
    const HostReach& reach, SshConfig& config, const Deadline& deadline, Interrupt& interrupt,
    launch::Where& where, const std::function<void(const std::string&)>& notice) {
  if (reach.local) {
    auto shell = LocalShell::open(interrupt);
    if (!shell) return tl::unexpected(shell.error());
    return std::unique_ptr<StartShell>(std::move(*shell));
  }
  const SshWish wish{reach.address, reach.port, reach.user, reach.identity, reach.jump};
  const auto settings = config.read(wish, Deadline(kSettingsWithin));
  if (!settings) return plant_failure(Cause::ssh_config, settings.error().text());
  const std::string beyond = reach.ssh == "openssh" ? "" : wants_program(*settings);
  where.address = settings->host_name;
  where.port = settings->port;
  where.user = settings->user;
  if (reach.ssh == "openssh" || (reach.ssh == "auto" && !beyond.empty())) {
    if (!beyond.empty()) notice(beyond + ", so the ssh program is used instead of libssh");
    auto shell = ProgramShell::open(wish, reach.accept_new_host_keys, launch::kShellCommand,
                                    deadline, interrupt);
    if (!shell) return tl::unexpected(shell.error());
    return std::unique_ptr<StartShell>(std::move(*shell));
  }
  if (!beyond.empty()) notice(beyond + ", which libssh does not use");
  auto shell = SshShell::open(*settings, {reach.accept_new_host_keys}, launch::kShellCommand,
                              deadline, interrupt);
  if (!shell) return tl::unexpected(shell.error());
  if (!(*shell)->notice().empty()) notice((*shell)->notice());
  return std::unique_ptr<StartShell>(std::move(*shell));
}

std::string make_nonce() {
  std::random_device dice;
  std::string nonce;
  for (int index = 0; index < kNonceLetters; ++index) {
    nonce += "abcdefghijklmnopqrstuvwxyz234567"[dice() % 32];
  }
  return nonce;
}

}  // namespace dlaunch::launcher::io
