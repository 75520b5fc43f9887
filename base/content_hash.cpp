#include "base/content_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace dlaunch {

void ContentHash::Free::operator()(XXH3_state_s* state) const { ::XXH3_freeState(state); }

ContentHash::ContentHash() : state_(::XXH3_createState()) {
  DL_CHECK(state_ != nullptr && ::XXH3_128bits_reset(state_.get()) == XXH_OK,
           "a hash can be started");
}

ContentHash::~ContentHash() = default;

void ContentHash::update(std::span<const std::byte> bytes) {
  const auto outcome = ::XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  DL_CHECK(outcome == XXH_OK, "a started hash takes bytes");
}

std::string ContentHash::hex() const {
  XXH128_canonical_t canonical{};
  ::XXH128_canonicalFromHash(&canonical, ::XXH3_128bits_digest(state_.get()));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

std::string content_hash(std::span<const std::byte> bytes) {
  ContentHash hash;
  hash.update(bytes);
  return hash.hex();
}

bool is_content_hash(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace dlaunch
