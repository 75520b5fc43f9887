#include "rendezvous/io/psk.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <charconv>
#include <memory>

#include "base/check.h"

namespace dlaunch::rendezvous {
namespace {

// One hash for the key and both cipher suites: an external key is bound to SHA-256.
constexpr const char* kCipherSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
// "<job>/<host id>" of a valid job id stays far below.
constexpr std::size_t kIdentityBytesMax = 256;

struct ClientKey {
  std::string identity;
  Secret key{};
  ~ClientKey() { OPENSSL_cleanse(key.data(), key.size()); }
};
struct ServerKeys {
  std::string job;
  Secret secret{};
  std::uint32_t hosts = 0;
  ~ServerKeys() { OPENSSL_cleanse(secret.data(), secret.size()); }
};

template <class Kept>
void free_kept(void*, void* pointer, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<Kept*>(pointer);
}
int client_index() {
  static const int index =
      SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, &free_kept<ClientKey>);
  return index;
}
int server_index() {
  static const int index =
      SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, &free_kept<ServerKeys>);
  return index;
}
/// Of the connection: host id + 1, as a pointer-sized number.
int host_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

SSL_SESSION* session_with(SSL* connection, const Secret& key) {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(connection, kAes128GcmSha256);
  SSL_SESSION* session = SSL_SESSION_new();
  DL_CHECK(cipher != nullptr && session != nullptr, "OpenSSL knows the cipher of TLS 1.3");
  DL_CHECK(SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
               SSL_SESSION_set_cipher(session, cipher) == 1 &&
               SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1,
           "OpenSSL takes a 256-bit external key");
  return session;
}

int offer_key(SSL* connection, const EVP_MD* hash, const unsigned char** identity,
              std::size_t* identity_bytes, SSL_SESSION** session) {
  const auto* kept = static_cast<const ClientKey*>(
      SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), client_index()));
  *session = nullptr;
  // A second hello after a retry is bound to the server's hash; ours is always SHA-256.
  if (hash != nullptr && EVP_MD_get_type(hash) != NID_sha256) return 1;
  *identity = reinterpret_cast<const unsigned char*>(kept->identity.data());
  *identity_bytes = kept->identity.size();
  *session = session_with(connection, kept->key);
  return 1;
}

std::optional<HostId> host_of(std::string_view identity, const ServerKeys& keys) {
  if (identity.size() > kIdentityBytesMax || identity.size() < keys.job.size() + 2) return {};
  if (identity.substr(0, keys.job.size()) != keys.job || identity[keys.job.size()] != '/') {
    return {};
  }
  const auto digits = identity.substr(keys.job.size() + 1);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end() || number >= keys.hosts) return {};
  return HostId{number};
}

int find_key(SSL* connection, const unsigned char* identity, std::size_t identity_bytes,
             SSL_SESSION** session) {
  const auto* keys = static_cast<const ServerKeys*>(
      SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), server_index()));
  *session = nullptr;  // unknown: goes on without a key and then fails for want of a certificate
  const auto host = host_of({reinterpret_cast<const char*>(identity), identity_bytes}, *keys);
  if (!host) return 1;
  Secret key = host_key(keys->secret, *host);
  *session = session_with(connection, key);
  OPENSSL_cleanse(key.data(), key.size());
  const auto mark = static_cast<std::uintptr_t>(host->value) + 1;
  return SSL_set_ex_data(connection, host_index(), reinterpret_cast<void*>(mark));
}

void restrict_context(SSL_CTX* context) {
  DL_CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(context, kCipherSuites) == 1,
           "OpenSSL can be held to TLS 1.3");
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One read of the socket for a record, not one for its header and one for the rest.
  SSL_CTX_set_read_ahead(context, 1);
}

}  // namespace

Secret make_secret() {
  Secret secret{};
  DL_CHECK(RAND_bytes(secret.data(), static_cast<int>(secret.size())) == 1,
           "the kernel gives random bytes");
  return secret;
}

std::string to_hex(const Secret& secret) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : secret) {
    text.push_back(kDigits[byte >> 4U]);
    text.push_back(kDigits[byte & 15U]);
  }
  return text;
}

std::optional<Secret> secret_from_hex(std::string_view hex) {
  Secret secret{};
  if (hex.size() != 2 * secret.size()) return std::nullopt;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const auto digits = hex.substr(2 * i, 2);
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), secret[i], 16);
    if (error != std::errc() || end != digits.end()) return std::nullopt;
  }
  return secret;
}

Secret derive(const Secret& job_secret, std::string_view purpose) {
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), &EVP_PKEY_CTX_free);
  Secret derived{};
  std::size_t bytes = derived.size();
  const auto* info = reinterpret_cast<const unsigned char*>(purpose.data());
  const bool done =
      context && EVP_PKEY_derive_init(context.get()) == 1 &&
      EVP_PKEY_CTX_set_hkdf_md(context.get(), EVP_sha256()) == 1 &&
      EVP_PKEY_CTX_set1_hkdf_key(context.get(), job_secret.data(),
                                 static_cast<int>(job_secret.size())) == 1 &&
      EVP_PKEY_CTX_add1_hkdf_info(context.get(), info, static_cast<int>(purpose.size())) == 1 &&
      EVP_PKEY_derive(context.get(), derived.data(), &bytes) == 1;
  DL_CHECK(done && bytes == derived.size(), "OpenSSL derives a key by HKDF-SHA256");
  return derived;
}

Secret host_key(const Secret& job_secret, HostId host) {
  return derive(job_secret, "dlaunch host " + std::to_string(host.value));
}

Secret mesh_token(const Secret& job_secret, Generation generation) {
  return derive(job_secret, "dlaunch mesh " + std::to_string(generation.value));
}

Secret peer_key(const Secret& job_secret) { return derive(job_secret, "dlaunch peers"); }

std::string psk_identity(std::string_view job, HostId host) {
  return std::string(job) + "/" + std::to_string(host.value);
}

void use_psk_client(ssl_ctx_st* context, std::string identity, const Secret& key) {
  restrict_context(context);
  SSL_CTX_set_ex_data(context, client_index(), new ClientKey{std::move(identity), key});
  SSL_CTX_set_psk_use_session_callback(context, &offer_key);
  // A server that passes over the key must show a certificate, and none is trusted here.
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
}

void use_psk_server(ssl_ctx_st* context, std::string job, const Secret& job_secret,
                    std::uint32_t hosts) {
  restrict_context(context);
  SSL_CTX_set_ex_data(context, server_index(), new ServerKeys{std::move(job), job_secret, hosts});
  SSL_CTX_set_psk_find_session_callback(context, &find_key);
}

std::optional<HostId> proven_host(ssl_st* connection) {
  const auto mark = reinterpret_cast<std::uintptr_t>(SSL_get_ex_data(connection, host_index()));
  if (mark == 0 || SSL_is_init_finished(connection) != 1 || SSL_session_reused(connection) != 1) {
    return std::nullopt;
  }
  return HostId{static_cast<std::uint32_t>(mark - 1)};
}

bool server_is_proven(ssl_st* connection) {
  return SSL_is_init_finished(connection) == 1 && SSL_session_reused(connection) == 1;
}

void prepare_agent_tls() {
  ::OPENSSL_init_crypto(OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS |
                            OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT,
                        nullptr);
}

}  // namespace dlaunch::rendezvous
