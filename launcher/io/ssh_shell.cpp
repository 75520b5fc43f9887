#include "launcher/io/ssh_shell.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "launcher/io/ssh_known_hosts.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

// curve25519 first: OpenSSH's newer default costs three times the CPU, and libssh has it not.
constexpr const char* kKeyExchanges =
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,"
    "ecdh-sha2-nistp521,diffie-hellman-group18-sha512,diffie-hellman-group16-sha512,"
    "diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256";
// AES first: with AES in hardware the copy of the agent costs less CPU time than with ChaCha20.
constexpr const char* kCiphers =
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,"
    "aes192-ctr,aes128-ctr";
constexpr std::size_t kErrorsKeptBytes = 600;
constexpr std::uint32_t kChunkBytes = 32 << 10;

/// OpenSSH's default names: tried after the keys of the agent, others before.
bool is_default_identity(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  return name == "id_rsa" || name == "id_ecdsa" || name == "id_ecdsa_sk" || name == "id_ed25519" ||
         name == "id_ed25519_sk" || name == "id_xmss" || name == "id_dsa";
}

bool set(ssh_session session, ssh_options_e option, const std::string& value) {
  return ssh_options_set(session, option, value.c_str()) == SSH_OK;
}

}  // namespace

// ssh_disconnect would forget its copy of the socket without closing it; ssh_free closes it, unless
// an error did before.
void SshShell::SessionDeleter::operator()(ssh_session session) const { ssh_free(session); }

SshShell::SshShell(Dialled dialled, Interrupt& interrupt)
    : dialled_(std::move(dialled)), interrupt_(interrupt), session_(ssh_new()) {}

SshShell::~SshShell() {
  channel_.reset();
  session_.reset();
  interrupt_.forget();
}

Planting<std::unique_ptr<SshShell>> SshShell::open(const SshSettings& settings, SshOptions options,
                                                   const std::string& command,
                                                   const Deadline& deadline, Interrupt& interrupt) {
  auto dialled = dial(settings, deadline, interrupt);
  if (!dialled) return tl::unexpected(dialled.error());
  std::unique_ptr<SshShell> shell(new SshShell(std::move(*dialled), interrupt));
  if (shell->session_ == nullptr) return plant_failure(Cause::ssh_config, "no SSH session");
  auto done = shell->shake_hands(settings, options, deadline);
  if (done) done = shell->log_in(settings, deadline);
  if (done) done = shell->run(command, deadline);
  if (!done) return tl::unexpected(done.error());
  return shell;
}

/// Blocking calls of libssh end with the deadline.
void SshShell::allow(const Deadline& deadline) {
  const auto left = std::max<long>(deadline.left_milliseconds(), 1);
  const long whole = left / 1000;
  const long rest = left % 1000 * 1000;
  ssh_options_set(session_.get(), SSH_OPTIONS_TIMEOUT, &whole);
  ssh_options_set(session_.get(), SSH_OPTIONS_TIMEOUT_USEC, &rest);
}

tl::unexpected<PlantFailure> SshShell::broken(Cause cause, const Deadline& deadline) {
  std::string detail = ssh_get_error(session_.get());
  if (interrupt_.interrupted()) cause = Cause::cancelled;
  if (deadline.over()) return plant_failure(Cause::silent, std::move(detail));
  return plant_failure(cause, std::move(detail));
}

Planting<void> SshShell::shake_hands(const SshSettings& settings, SshOptions options,
                                     const Deadline& deadline) {
  ssh_session session = session_.get();
  const int off = 0;
  const std::uint16_t port = settings.host_key_alias.empty() ? settings.port : 22;
  const std::string& host =
      settings.host_key_alias.empty() ? settings.host_name : settings.host_key_alias;
  const unsigned int port_number = port;
  const auto known = read_known_keys(settings.known_hosts, known_hosts_name(host, port));
  FileDescriptor copy(::fcntl(dialled_.socket.get(), F_DUPFD_CLOEXEC, 3));
  const int number = copy.get();
  bool accepted = ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &off) == SSH_OK;
  accepted = accepted && ssh_options_set(session, SSH_OPTIONS_FD, &number) == SSH_OK;
  accepted = accepted && set(session, SSH_OPTIONS_HOST, host);
  accepted = accepted && ssh_options_set(session, SSH_OPTIONS_PORT, &port_number) == SSH_OK;
  accepted = accepted && set(session, SSH_OPTIONS_USER, settings.user);
  // The checks are ours: libssh knows one file only and neither @revoked nor locks.
  accepted = accepted && set(session, SSH_OPTIONS_KNOWNHOSTS, "/dev/null");
  accepted = accepted && set(session, SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
  accepted = accepted && set(session, SSH_OPTIONS_KEY_EXCHANGE, kKeyExchanges);
  accepted = accepted && set(session, SSH_OPTIONS_CIPHERS_C_S, kCiphers);
  accepted = accepted && set(session, SSH_OPTIONS_CIPHERS_S_C, kCiphers);
  accepted = accepted && set(session, SSH_OPTIONS_HOSTKEYS, host_key_algorithms(known));
  const std::string& agent = settings.identity_agent;
  if (!agent.empty() && agent != "none" && agent != "SSH_AUTH_SOCK") {
    accepted = accepted && set(session, SSH_OPTIONS_IDENTITY_AGENT, agent);
  }
  if (!accepted) return broken(Cause::ssh_config, deadline);
  allow(deadline);
  (void)copy.release();  // libssh's from here on
  if (ssh_connect(session) != SSH_OK) return broken(Cause::closed_before_banner, deadline);
  return check_host_key(settings, options);
}

Planting<void> SshShell::check_host_key(const SshSettings& settings, SshOptions options) {
  ssh_key raw = nullptr;
  if (ssh_get_server_publickey(session_.get(), &raw) != SSH_OK) {
    return plant_failure(Cause::host_key_unknown, "the server showed no host key");
  }
  const SshKey key(raw);
  const std::string name = settings.host_key_alias.empty()
                               ? known_hosts_name(settings.host_name, settings.port)
                               : settings.host_key_alias;
  const auto known = read_known_keys(settings.known_hosts, name);
  const std::string shown = "its key is " + fingerprint(key.get());
  switch (judge_host_key(known, key.get())) {
    case HostKeyVerdict::known:
      return {};
    case HostKeyVerdict::changed:
      return plant_failure(Cause::host_key_changed, shown);
    case HostKeyVerdict::revoked:
      return plant_failure(Cause::host_key_changed, shown + ", which known_hosts has as revoked");
    case HostKeyVerdict::unknown:
      break;
  }
  if (!options.accept_new_host_keys) {
    const char* authority = "; known_hosts has a host CA for it, which libssh cannot check";
    return plant_failure(Cause::host_key_unknown, known.has_authority ? shown + authority : shown);
  }
  if (settings.known_hosts_new.empty()) {
    return plant_failure(Cause::host_key_unknown, shown + "; no known_hosts file to add it to");
  }
  const auto added = add_known_key(settings.known_hosts_new, name, key.get());
  if (!added) return plant_failure(Cause::host_key_unknown, added.error().text());
  if (!*added) return plant_failure(Cause::host_key_changed, shown);
  notice_ = "the new host key of " + name + " was accepted: " + fingerprint(key.get());
  return {};
}

int SshShell::try_file(const std::string& path, bool& loaded) {
  ssh_key raw = nullptr;
  // One with a passphrase does not load: such keys are used through ssh-agent.
  if (ssh_pki_import_privkey_file(path.c_str(), nullptr, nullptr, nullptr, &raw) != SSH_OK) {
    return SSH_AUTH_DENIED;
  }
  loaded = true;
  const SshKey key(raw);
  return ssh_userauth_publickey(session_.get(), nullptr, key.get());
}

Planting<void> SshShell::log_in(const SshSettings& settings, const Deadline& deadline) {
  allow(deadline);
  std::vector<std::string> named;
  std::vector<std::string> defaults;
  for (const std::string& path : settings.identity_files) {
    (settings.identities_only || !is_default_identity(path) ? named : defaults).push_back(path);
  }
  int answer = SSH_AUTH_DENIED;
  bool loaded = false;
  const auto going_on = [&] { return answer == SSH_AUTH_DENIED && !deadline.over(); };
  for (const std::string& path : named) {
    if (going_on()) answer = try_file(path, loaded);
  }
  // An agent may hold more keys than the server lets us try, so it comes after the named ones; and
  // with only named ones it is asked only for a key that we cannot read ourselves.
  const bool ask_agent =
      settings.identity_agent != "none" && (!settings.identities_only || !loaded);
  if (going_on() && ask_agent) answer = ssh_userauth_agent(session_.get(), nullptr);
  for (const std::string& path : defaults) {
    if (going_on()) answer = try_file(path, loaded);
  }
  if (answer == SSH_AUTH_SUCCESS) return {};
  if (answer == SSH_AUTH_PARTIAL) {
    return plant_failure(Cause::auth_refused, "the server wants a second factor");
  }
  return broken(Cause::auth_refused, deadline);
}

Planting<void> SshShell::run(const std::string& command, const Deadline& deadline) {
  allow(deadline);
  channel_.reset(ssh_channel_new(session_.get()));
  if (channel_ == nullptr || ssh_channel_open_session(channel_.get()) != SSH_OK ||
      ssh_channel_request_exec(channel_.get(), command.c_str()) != SSH_OK) {
    return broken(Cause::agent_failed, deadline);
  }
  return {};
}

Planting<void> SshShell::write(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    if (deadline.over()) return broken(Cause::silent, deadline);
    allow(deadline);
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size(), kChunkBytes));
    const int written = ssh_channel_write(channel_.get(), bytes.data(), count);
    if (written <= 0) return broken(Cause::agent_failed, deadline);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Planting<std::string> SshShell::read(const Deadline& deadline) {
  const int ready = ssh_channel_poll_timeout(channel_.get(), deadline.left_milliseconds(), 0);
  drain_errors();
  if (interrupt_.interrupted()) return plant_failure(Cause::cancelled, "");
  if (ready == SSH_EOF) return std::string();
  if (ready < 0) return plant_failure(Cause::closed_before_banner, ssh_get_error(session_.get()));
  if (ready == 0) return plant_failure(Cause::silent, "no answer any more");
  std::array<char, 4096> buffer{};
  const int count = ssh_channel_read_nonblocking(channel_.get(), buffer.data(), buffer.size(), 0);
  if (count < 0) return broken(Cause::closed_before_banner, deadline);
  return std::string(buffer.data(), static_cast<std::size_t>(count));
}

void SshShell::drain_errors() {
  std::array<char, 4096> buffer{};
  int count = 0;
  while ((count = ssh_channel_read_nonblocking(channel_.get(), buffer.data(), buffer.size(), 1)) >
         0) {
    errors_.append(buffer.data(), static_cast<std::size_t>(count));
    if (errors_.size() > kErrorsKeptBytes) errors_.erase(0, errors_.size() - kErrorsKeptBytes);
  }
}

std::string SshShell::errors() {
  drain_errors();
  std::string text = errors_;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace dlaunch::launcher::io
