// What may stand where a host, a user or an address is named. It ends up on command lines of SSH,
// so nothing that begins with a dash or holds a blank gets through.
#pragma once

#include <string_view>

namespace dlaunch::launcher::config {

/// A numeric IPv4 or IPv6 address; the latter may have a zone: "fe80::1%eth0".
[[nodiscard]] bool is_numeric_address(std::string_view text);
/// A host's name: letters, digits, '-', '_' and '.'; at most 253 characters.
[[nodiscard]] bool is_host_name(std::string_view text);
/// A host's name, or a numeric address. "10.0.0.300" is neither.
[[nodiscard]] bool is_address(std::string_view text);
[[nodiscard]] bool is_user_name(std::string_view text);
/// "eth0", "ib0", "bond0.12"
[[nodiscard]] bool is_interface_name(std::string_view text);
/// "[user@]host[:port]", several with commas between, or "none"; as SSH's ProxyJump.
[[nodiscard]] bool is_jump(std::string_view text);

}  // namespace dlaunch::launcher::config
