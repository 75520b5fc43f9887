#include "launcher/launch/ssh_words.h"

#include <array>
#include <utility>

namespace dlaunch::launcher::launch {
namespace {

/// The first that matches counts: a changed host key also ends with "verification failed".
constexpr std::array<std::pair<const char*, Cause>, 22> kSentences{{
    {"IDENTIFICATION HAS CHANGED", Cause::host_key_changed},
    {"has changed and you have requested strict checking", Cause::host_key_changed},
    {"REVOKED HOST KEY", Cause::host_key_changed},
    {"is revoked", Cause::host_key_changed},
    {"host key is known for", Cause::host_key_unknown},
    {"Host key verification failed", Cause::host_key_unknown},
    {"Permission denied", Cause::auth_refused},
    {"Too many authentication failures", Cause::auth_refused},
    {"Could not resolve hostname", Cause::unresolved},
    {"Connection refused", Cause::refused},
    {"Connection timed out", Cause::silent},
    {"Operation timed out", Cause::silent},
    {"No route to host", Cause::silent},
    {"Network is unreachable", Cause::silent},
    {"kex_exchange_identification", Cause::closed_before_banner},
    {"banner exchange", Cause::closed_before_banner},
    {"Connection closed by", Cause::closed_before_banner},
    {"Connection reset by", Cause::closed_before_banner},
    {"Bad configuration option", Cause::ssh_config},
    {"terminating,", Cause::ssh_config},
    {"command-line:", Cause::ssh_config},
    {"no matching", Cause::ssh_config},
}};

bool begins_a_line(std::string_view text, std::string_view key) {
  return text.starts_with(key) || text.find("\n" + std::string(key)) != std::string_view::npos;
}

}  // namespace

std::optional<Cause> cause_in(std::string_view errors) {
  for (const auto& [sentence, cause] : kSentences) {
    if (errors.find(sentence) != std::string_view::npos) return cause;
  }
  return std::nullopt;
}

std::string beyond_libssh(std::string_view settings) {
  if (begins_a_line(settings, "certificatefile ")) return "CertificateFile is set for it";
  if (begins_a_line(settings, "pkcs11provider ") &&
      !begins_a_line(settings, "pkcs11provider none")) {
    return "PKCS11Provider is set for it";
  }
  return "";
}

}  // namespace dlaunch::launcher::launch
