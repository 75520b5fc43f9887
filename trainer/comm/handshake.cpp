#include "trainer/comm/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "trainer/comm/byte_order.h"

namespace dlaunch::comm {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kMagic = 0x68736d686c6e6164;  // "danlhmsh" in memory order
constexpr std::uint32_t kMeshVersion = 3;

// hello: magic 8, version 4, from 4, to 4, world size 4, generation 8, nonce 32, connection 4,
// connections 4, turn bytes 4
constexpr std::size_t kHelloBytes = 76;
// answer: code 4, zero 4, generation 8, nonce 32; then the proof 32
constexpr std::size_t kAnswerHeadBytes = 48;
constexpr std::size_t kProofBytes = 32;
constexpr std::size_t kAnswerBytes = kAnswerHeadBytes + kProofBytes;
constexpr std::size_t kAcceptedBytes = 4;

constexpr std::uint32_t kWelcome = 0;
constexpr std::uint32_t kOtherGeneration = 1;
constexpr std::uint32_t kOtherRank = 2;
constexpr std::uint32_t kOtherConnections = 3;

using Proof = std::array<std::byte, kProofBytes>;

/// The role keeps one side's proof from being played back as the other's.
Proof prove(const MeshIdentity& identity, std::string_view role, Bytes hello, Bytes answer_head) {
  std::vector<std::byte> text;
  const auto append = [&text](Bytes bytes) {
    const auto size = static_cast<std::uint64_t>(bytes.size());
    const Bytes prefix = std::as_bytes(std::span(&size, 1));
    text.insert(text.end(), prefix.begin(), prefix.end());
    text.insert(text.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(role)));
  append(std::as_bytes(std::span(identity.group)));
  append(hello);
  append(answer_head);

  Proof proof{};
  unsigned int length = 0;
  const auto* made =
      ::HMAC(::EVP_sha256(), identity.token.data(), static_cast<int>(identity.token.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &length);
  DL_CHECK(made != nullptr && length == kProofBytes, "HMAC-SHA256 always works");
  return proof;
}

bool same(Bytes left, Bytes right) {
  return left.size() == right.size() &&
         ::CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string other_generation(std::uint64_t theirs, Generation ours) {
  return "it belongs to generation " + std::to_string(theirs) + ", this is generation " +
         std::to_string(ours.value);
}

}  // namespace

Handshake Handshake::dial(const MeshIdentity& identity, Rank to, const Nonce& nonce,
                          std::uint32_t connection) {
  Handshake handshake(identity, nonce, AwaitsAnswer{});
  handshake.other_ = to;
  handshake.connection_ = connection;
  handshake.hello_.resize(kHelloBytes);
  const std::span<std::byte> hello(handshake.hello_);
  put(hello, 0, kMagic);
  put(hello, 8, kMeshVersion);
  put(hello, 12, identity.rank.value);
  put(hello, 16, to.value);
  put(hello, 20, identity.world_size);
  put(hello, 24, identity.generation.value);
  std::ranges::copy(nonce, hello.subspan(32).begin());
  put(hello, 64, connection);
  put(hello, 68, identity.connections);
  put(hello, 72, identity.stripe_bytes);
  handshake.output_ = handshake.hello_;
  return handshake;
}

Handshake Handshake::answer(const MeshIdentity& identity, const Nonce& nonce) {
  return {identity, nonce, AwaitsHello{}};
}

std::size_t Handshake::wanted_bytes() const {
  if (std::holds_alternative<AwaitsHello>(state_)) return kHelloBytes;
  if (std::holds_alternative<AwaitsAnswer>(state_)) return kAnswerBytes;
  if (std::holds_alternative<AwaitsProof>(state_)) return kProofBytes;
  if (std::holds_alternative<AwaitsAccepted>(state_)) return kAcceptedBytes;
  return 0;
}

std::string_view Handshake::reason() const {
  const auto* refused = std::get_if<Refused>(&state_);
  return refused == nullptr ? std::string_view() : std::string_view(refused->reason);
}

void Handshake::receive(Bytes message) {
  DL_CHECK(message.size() == wanted_bytes(), "messages are handed over whole");
  if (std::holds_alternative<AwaitsHello>(state_)) return on_hello(message);
  if (std::holds_alternative<AwaitsAnswer>(state_)) return on_answer(message);
  if (std::holds_alternative<AwaitsProof>(state_)) return on_proof(message);
  on_accepted(message);
}

void Handshake::on_hello(Bytes hello) {
  // Who does not even speak this protocol is told nothing.
  if (get<std::uint64_t>(hello, 0) != kMagic) return become_refused("it is not a dlaunch worker");
  if (get<std::uint32_t>(hello, 8) != kMeshVersion) {
    return become_refused("it speaks another version of the mesh: all hosts need the same build");
  }
  const Rank from{get<std::uint32_t>(hello, 12)};
  const Rank to{get<std::uint32_t>(hello, 16)};
  const auto world_size = get<std::uint32_t>(hello, 20);
  const auto generation = get<std::uint64_t>(hello, 24);
  if (generation != identity_->generation.value) {
    return refuse_aloud(kOtherGeneration, other_generation(generation, identity_->generation));
  }
  // Lower ranks dial higher ones, so nobody else has a reason to call here.
  if (to != identity_->rank || from >= identity_->rank || world_size != identity_->world_size) {
    return refuse_aloud(kOtherRank, "it looks for rank " + std::to_string(to.value) + " of " +
                                        std::to_string(world_size) + ", this is rank " +
                                        std::to_string(identity_->rank.value) + " of " +
                                        std::to_string(identity_->world_size));
  }
  const auto connection = get<std::uint32_t>(hello, 64);
  const auto connections = get<std::uint32_t>(hello, 68);
  if (connection >= connections) {
    return refuse_aloud(kOtherConnections, "it makes more connections than it says");
  }
  if (connections != identity_->connections ||
      get<std::uint32_t>(hello, 72) != identity_->stripe_bytes) {
    return refuse_aloud(kOtherConnections, "it makes " + std::to_string(connections) +
                                               " connections with each rank, this rank " +
                                               std::to_string(identity_->connections) +
                                               ", or in other turns");
  }
  other_ = from;
  connection_ = connection;
  hello_.assign(hello.begin(), hello.end());
  answer_.assign(kAnswerHeadBytes, std::byte{0});
  put(std::span(answer_), 0, kWelcome);
  put(std::span(answer_), 8, identity_->generation.value);
  std::ranges::copy(nonce_, std::span(answer_).subspan(16).begin());
  const Proof proof = prove(*identity_, "answer", hello_, answer_);
  output_ = answer_;
  output_.insert(output_.end(), proof.begin(), proof.end());
  become_awaiting_proof();
}

void Handshake::on_answer(Bytes answer) {
  const auto code = get<std::uint32_t>(answer, 0);
  const auto generation = get<std::uint64_t>(answer, 8);
  if (code == kOtherGeneration) {
    return become_refused(other_generation(generation, identity_->generation));
  }
  if (code == kOtherConnections) {
    return become_refused("it makes another number of connections: all ranks need the same");
  }
  if (code != kWelcome) return become_refused("it says that it is another rank");
  const Bytes head = answer.first(kAnswerHeadBytes);
  answer_.assign(head.begin(), head.end());
  if (!same(answer.subspan(kAnswerHeadBytes), prove(*identity_, "answer", hello_, answer_))) {
    return become_refused("it does not know the token of this generation");
  }
  const Proof proof = prove(*identity_, "dial", hello_, answer_);
  output_.assign(proof.begin(), proof.end());
  become_awaiting_accepted();
}

void Handshake::on_proof(Bytes proof) {
  if (!same(proof, prove(*identity_, "dial", hello_, answer_))) {
    return become_refused("it does not know the token of this generation");
  }
  output_.assign(kAcceptedBytes, std::byte{0});
  put(std::span(output_), 0, kMeshVersion);
  become_established();
}

void Handshake::on_accepted(Bytes accepted) {
  if (get<std::uint32_t>(accepted, 0) != kMeshVersion) {
    return become_refused("it did not accept this rank");
  }
  become_established();
}

void Handshake::refuse_aloud(std::uint32_t code, std::string reason) {
  output_.assign(kAnswerBytes, std::byte{0});
  put(std::span(output_), 0, code);
  put(std::span(output_), 8, identity_->generation.value);
  become_refused(std::move(reason));
}

}  // namespace dlaunch::comm
