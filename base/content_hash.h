// XXH3-128 of bytes, as checkpoints and preflight name it: 32 hex digits.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace dlaunch {

class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept = default;
  ContentHash& operator=(ContentHash&&) noexcept = default;

  void update(std::span<const std::byte> bytes);
  /// Of all bytes so far.
  [[nodiscard]] std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

[[nodiscard]] std::string content_hash(std::span<const std::byte> bytes);
/// 32 lower-case hex digits.
[[nodiscard]] bool is_content_hash(std::string_view text);

}  // namespace dlaunch
