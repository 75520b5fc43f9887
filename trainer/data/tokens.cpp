#include "trainer/data/tokens.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace dlaunch::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are read as they lie in memory");

/// Ids looked at together: what is searched again when one of them is wrong.
constexpr std::uint64_t kChunk = 64 * 1024;

template <class Id>
Id at(const std::byte* bytes, std::uint64_t place) {
  Id id;
  std::memcpy(&id, bytes + place * sizeof(Id), sizeof id);
  return id;
}

/// Calls `work` with a value of the type that has this width.
template <class Work>
auto with_width(std::uint32_t width, Work work) {
  if (width == 4) return work(std::uint32_t{});
  return width == 2 ? work(std::uint16_t{}) : work(std::uint8_t{});
}

template <class Id>
std::uint32_t largest_of(const std::byte* bytes, std::uint64_t first, std::uint64_t count) {
  Id most = 0;
  for (std::uint64_t i = first; i < first + count; ++i) most = std::max(most, at<Id>(bytes, i));
  return most;
}

}  // namespace

TokenView::TokenView(std::span<const std::byte> bytes, std::uint32_t width)
    : bytes_(bytes), width_(width) {
  DL_CHECK(width == 1 || width == 2 || width == 4, "ids have one, two or four bytes");
}

void TokenView::copy(std::uint64_t first, std::span<std::int64_t> into) const {
  DL_CHECK(first <= size() && into.size() <= size() - first, "the ids are in the file");
  with_width(width_, [&](auto id) {
    for (std::size_t i = 0; i < into.size(); ++i) {
      into[i] = at<decltype(id)>(bytes_.data(), first + i);
    }
  });
}

std::uint32_t TokenView::largest(std::uint64_t first, std::uint64_t count) const {
  DL_CHECK(first <= size() && count <= size() - first, "the ids are in the file");
  return with_width(width_,
                    [&](auto id) { return largest_of<decltype(id)>(bytes_.data(), first, count); });
}

std::optional<std::uint64_t> TokenView::find_outside(std::uint64_t vocabulary, std::uint64_t first,
                                                     std::uint64_t count) const {
  for (const auto end = first + count; first < end; first += kChunk) {
    const auto chunk = std::min(kChunk, end - first);
    if (largest(first, chunk) < vocabulary) continue;
    while (largest(first, 1) < vocabulary) ++first;
    return first;
  }
  return std::nullopt;
}

}  // namespace dlaunch::trainer
