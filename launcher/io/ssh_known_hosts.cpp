#include "launcher/io/ssh_known_hosts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/io/file_descriptor.h"

namespace dlaunch::launcher::io {
namespace {

// A key of 16,384 bits in base64 with a long list of names stays below this.
constexpr std::size_t kLineBytesMax = std::size_t{16} << 10;

struct EntryDeleter {
  void operator()(ssh_knownhosts_entry* entry) const { ssh_knownhosts_entry_free(entry); }
};
using Entry = std::unique_ptr<ssh_knownhosts_entry, EntryDeleter>;

/// Null: the line is of another host, or not understood.
SshKey key_of_line(const std::string& line, const std::string& name) {
  ssh_knownhosts_entry* raw = nullptr;
  if (ssh_known_hosts_parse_line(name.c_str(), line.c_str(), &raw) != SSH_OK) return nullptr;
  const Entry entry(raw);
  SshKey key(entry->publickey);
  entry->publickey = nullptr;
  return key;
}

/// The rest of the line after `marker` and blanks; empty: another line.
std::string without_marker(const std::string& line, std::string_view marker) {
  if (!line.starts_with(marker)) return "";
  const auto rest = line.find_first_not_of(" \t", marker.size());
  return rest == std::string::npos || rest == marker.size() ? "" : line.substr(rest);
}

void take_line(const std::string& line, const std::string& name, KnownKeys& known) {
  const std::string revoked = without_marker(line, "@revoked");
  const std::string authority = without_marker(line, "@cert-authority");
  if (!revoked.empty()) {
    if (SshKey key = key_of_line(revoked, name)) known.revoked.push_back(std::move(key));
  } else if (!authority.empty()) {
    known.has_authority = known.has_authority || key_of_line(authority, name) != nullptr;
  } else if (SshKey key = key_of_line(line, name)) {
    known.good.push_back(std::move(key));
  }
}

bool contains(const std::vector<SshKey>& keys, ssh_key wanted) {
  return std::any_of(keys.begin(), keys.end(), [&](const SshKey& key) {
    return ssh_key_cmp(key.get(), wanted, SSH_KEY_CMP_PUBLIC) == 0;
  });
}

struct Algorithm {
  ssh_keytypes_e type;
  const char* names;
};
// libssh's own order of preference, without what it treats as weak.
constexpr std::array kAlgorithms{
    Algorithm{SSH_KEYTYPE_ED25519, "ssh-ed25519"},
    Algorithm{SSH_KEYTYPE_ECDSA_P521, "ecdsa-sha2-nistp521"},
    Algorithm{SSH_KEYTYPE_ECDSA_P384, "ecdsa-sha2-nistp384"},
    Algorithm{SSH_KEYTYPE_ECDSA_P256, "ecdsa-sha2-nistp256"},
    Algorithm{SSH_KEYTYPE_RSA, "rsa-sha2-512,rsa-sha2-256"},
};

}  // namespace

std::string known_hosts_name(const std::string& host, std::uint16_t port) {
  return port == 22 ? host : "[" + host + "]:" + std::to_string(port);
}

KnownKeys read_known_keys(const std::vector<std::string>& files, const std::string& name) {
  KnownKeys known;
  for (const std::string& file : files) {
    std::ifstream input(file);
    std::string line;
    while (std::getline(input, line)) {
      if (line.size() <= kLineBytesMax) take_line(line, name, known);
    }
  }
  return known;
}

HostKeyVerdict judge_host_key(const KnownKeys& known, ssh_key key) {
  if (contains(known.revoked, key)) return HostKeyVerdict::revoked;
  if (contains(known.good, key)) return HostKeyVerdict::known;
  return known.good.empty() ? HostKeyVerdict::unknown : HostKeyVerdict::changed;
}

std::string host_key_algorithms(const KnownKeys& known) {
  std::string first;
  std::string rest;
  for (const Algorithm& algorithm : kAlgorithms) {
    const bool has = std::any_of(known.good.begin(), known.good.end(), [&](const SshKey& key) {
      return ssh_key_type(key.get()) == algorithm.type;
    });
    std::string& list = has ? first : rest;
    if (!list.empty()) list += ",";
    list += algorithm.names;
  }
  return first.empty() || rest.empty() ? first + rest : first + "," + rest;
}

std::string fingerprint(ssh_key key) {
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) != 0) return "";
  char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
  std::string result = text == nullptr ? "" : text;
  ssh_string_free_char(text);
  ssh_clean_pubkey_hash(&hash);
  return result;
}

Result<bool> add_known_key(const std::string& file, const std::string& name, ssh_key key) {
  const std::string doing = "adding the host key to " + file;
  const auto folder = std::filesystem::path(file).parent_path();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return failure_from_errno(errno, doing);
  }
  const FileDescriptor opened(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!opened.is_open() || ::flock(opened.get(), LOCK_EX) != 0) {
    return failure_from_errno(errno, doing);
  }
  const KnownKeys known = read_known_keys({file}, name);
  if (!known.good.empty()) return judge_host_key(known, key) == HostKeyVerdict::known;
  char* base64 = nullptr;
  if (ssh_pki_export_pubkey_base64(key, &base64) != SSH_OK) {
    return failure(std::errc::invalid_argument, doing);
  }
  std::string line = name + " " + ssh_key_type_to_char(ssh_key_type(key)) + " " + base64 + "\n";
  ssh_string_free_char(base64);
  const off_t end = ::lseek(opened.get(), 0, SEEK_END);
  char last = '\n';
  if (end > 0 && ::pread(opened.get(), &last, 1, end - 1) == 1 && last != '\n') line = "\n" + line;
  const auto written = ::write(opened.get(), line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) return failure_from_errno(errno, doing);
  return true;
}

}  // namespace dlaunch::launcher::io
