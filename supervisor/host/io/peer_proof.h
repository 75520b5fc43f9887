// What agents of one job prove themselves to each other with.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

constexpr std::size_t kProofBytes = 16;
constexpr std::size_t kNonceBytes = 16;
/// A job id of 64 characters and five numbers stay below.
constexpr std::size_t kProbeBytesMax = 256;

/// The proof, then the message.
[[nodiscard]] std::string seal_probe(const std::string& key, const protocol::ProbeDatagram& probe);
/// nullopt: too short, too long, not of this key, or no message. Takes the same time whatever part
/// of the proof is wrong.
[[nodiscard]] std::optional<protocol::ProbeDatagram> open_probe(const std::string& key,
                                                                std::string_view datagram);

/// Fills in `proof`.
void sign(const std::string& key, protocol::RelayRequest& request);
[[nodiscard]] bool is_signed(const std::string& key, const protocol::RelayRequest& request);

/// kNonceBytes of the kernel's generator.
[[nodiscard]] std::string make_nonce();

}  // namespace dlaunch::supervisor::host
