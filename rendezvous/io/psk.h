// The job's secret, what is derived from it, and TLS 1.3 with an external pre-shared key on both
// sides: no certificates, nothing to install, and nobody without the key gets a byte further.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace dlaunch::rendezvous {

/// 256 bits. Never on a command line, in an environment, in a log or in a file others may read.
using Secret = std::array<unsigned char, 32>;

/// From the kernel's generator.
[[nodiscard]] Secret make_secret();
[[nodiscard]] std::string to_hex(const Secret& secret);
/// nullopt: not 64 hexadecimal digits.
[[nodiscard]] std::optional<Secret> secret_from_hex(std::string_view hex);

/// HKDF-SHA256 of the job's secret; a different `purpose` gives an unrelated key.
[[nodiscard]] Secret derive(const Secret& job_secret, std::string_view purpose);
/// What one host's agent proves itself with; the other hosts' keys do not follow from it.
[[nodiscard]] Secret host_key(const Secret& job_secret, HostId host);
/// What workers of one generation show each other; equal after a restart of the controller.
[[nodiscard]] Secret mesh_token(const Secret& job_secret, Generation generation);

/// What the agents of one job prove themselves to each other with.
[[nodiscard]] Secret peer_key(const Secret& job_secret);

/// "<job>/<host id>": travels in clear, says which key to try.
[[nodiscard]] std::string psk_identity(std::string_view job, HostId host);

/// Prepares a client context. Keeps a copy of `key` until the context is freed.
void use_psk_client(ssl_ctx_st* context, std::string identity, const Secret& key);

/// Prepares a server context that knows the keys of hosts 0 … hosts - 1 of this job.
void use_psk_server(ssl_ctx_st* context, std::string job, const Secret& job_secret,
                    std::uint32_t hosts);

/// After the server's handshake: whose key it was. nullopt: none, close at once.
[[nodiscard]] std::optional<HostId> proven_host(ssl_st* connection);
/// After the client's handshake: the server has the key too.
[[nodiscard]] bool server_is_proven(ssl_st* connection);

/// Before anything else of OpenSSL in an agent: what TLS with a shared key never uses is not set
/// up, which is most of the time that an agent takes to start. No configuration file is read.
void prepare_agent_tls();

}  // namespace dlaunch::rendezvous
