// How two ranks become sure of each other: generation, ranks, and mutual proof of the token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"

namespace dlaunch::comm {

/// Between two ranks; more would only cost descriptors.
constexpr std::uint32_t kConnectionsMax = 16;
constexpr std::size_t kNonceBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;

/// What both sides must agree on; `token` enters the proofs only and is never sent.
struct MeshIdentity {
  Rank rank;
  std::uint32_t world_size = 1;
  Generation generation;
  std::string group;
  std::vector<std::byte> token;
  std::uint32_t connections = 1;   ///< of two ranks of different hosts
  std::uint32_t stripe_bytes = 0;  ///< that each of them carries before the next
};

/// One connection's conversation: hello → answer with proof → proof → accepted. All four messages
/// have a fixed size, so a stranger can make us keep no more than that. Touches no socket.
class Handshake {
 public:
  /// This side has dialled `to`, for its `connection`-th one with it. `identity` must outlive the
  /// handshake. The nonce must be fresh and unpredictable.
  static Handshake dial(const MeshIdentity& identity, Rank to, const Nonce& nonce,
                        std::uint32_t connection = 0);
  /// This side was dialled by it does not know whom.
  static Handshake answer(const MeshIdentity& identity, const Nonce& nonce);

  /// Bytes to send next; each is given once. Also after a refusal there may be some.
  [[nodiscard]] std::vector<std::byte> take_output() { return std::exchange(output_, {}); }
  /// The size of the message that the other side owes; 0: none.
  [[nodiscard]] std::size_t wanted_bytes() const;
  /// Exactly `wanted_bytes()` of them.
  void receive(std::span<const std::byte> message);

  [[nodiscard]] bool established() const { return std::holds_alternative<Established>(state_); }
  [[nodiscard]] bool refused() const { return std::holds_alternative<Refused>(state_); }
  /// Once established.
  [[nodiscard]] Rank other_rank() const { return other_; }
  /// Likewise: the how manieth of the two it is, from 0 on.
  [[nodiscard]] std::uint32_t connection() const { return connection_; }
  /// Once refused, by either side: "it belongs to generation 6, this is generation 7".
  [[nodiscard]] std::string_view reason() const;

 private:
  struct AwaitsHello {};
  struct AwaitsAnswer {};
  struct AwaitsProof {};
  struct AwaitsAccepted {};
  struct Established {};
  struct Refused {
    std::string reason;
  };
  using State =
      std::variant<AwaitsHello, AwaitsAnswer, AwaitsProof, AwaitsAccepted, Established, Refused>;

  Handshake(const MeshIdentity& identity, const Nonce& nonce, State state)
      : identity_(&identity), nonce_(nonce), state_(std::move(state)) {}

  void on_hello(std::span<const std::byte> hello);
  void on_answer(std::span<const std::byte> answer);
  void on_proof(std::span<const std::byte> proof);
  void on_accepted(std::span<const std::byte> accepted);
  void become_awaiting_proof() { state_ = AwaitsProof{}; }
  void become_awaiting_accepted() { state_ = AwaitsAccepted{}; }
  void become_established() { state_ = Established{}; }
  void become_refused(std::string reason) { state_ = Refused{std::move(reason)}; }
  void refuse_aloud(std::uint32_t code, std::string reason);

  const MeshIdentity* identity_;
  Nonce nonce_;
  State state_;
  Rank other_;
  std::uint32_t connection_ = 0;
  std::vector<std::byte> hello_;   ///< as sent or received: part of both proofs
  std::vector<std::byte> answer_;  ///< its head, without the proof
  std::vector<std::byte> output_;
};

}  // namespace dlaunch::comm
