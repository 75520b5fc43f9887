// Token ids as they lie in a file: the bytes of a text, or whole numbers of one width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace dlaunch::trainer {

/// Little-endian, without a sign: a negative id of a signed file reads as one beyond any
/// vocabulary. Does not own the bytes, which need no alignment.
class TokenView {
 public:
  TokenView() = default;
  /// `width`: bytes of one id, 1, 2 or 4. Bytes beyond the last whole id are left out.
  TokenView(std::span<const std::byte> bytes, std::uint32_t width);

  [[nodiscard]] std::uint64_t size() const { return bytes_.size() / width_; }
  [[nodiscard]] std::uint32_t width() const { return width_; }
  /// The ids from `first` on, as many as `into` has room for; they must be there.
  void copy(std::uint64_t first, std::span<std::int64_t> into) const;
  /// The largest of the ids [first, first + count); 0 where there are none.
  [[nodiscard]] std::uint32_t largest(std::uint64_t first, std::uint64_t count) const;
  /// Place of the first id of [first, first + count) that is `vocabulary` or more.
  [[nodiscard]] std::optional<std::uint64_t> find_outside(std::uint64_t vocabulary,
                                                          std::uint64_t first,
                                                          std::uint64_t count) const;

 private:
  std::span<const std::byte> bytes_;
  std::uint32_t width_ = 1;
};

}  // namespace dlaunch::trainer
