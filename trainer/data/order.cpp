// A keyed permutation (Feistel network, walked until it lands in range) of the text's windows.
#include "trainer/data/order.h"

#include <bit>
#include <utility>

#include "base/check.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {

namespace {
constexpr std::uint32_t kRounds = 4;
}

DataOrder::DataOrder(std::uint64_t seed, std::uint64_t text_bytes, std::uint32_t context,
                     std::uint32_t logical_batches, std::uint32_t micro_batch)
    : seed_(mix(seed)),
      windows_((text_bytes - 1) / context),
      context_(context),
      logical_batches_(logical_batches),
      micro_batch_(micro_batch),
      half_bits_((static_cast<std::uint32_t>(std::bit_width(windows_)) + 1) / 2) {
  DL_CHECK(text_bytes > context, "the text holds at least one window");
}

std::uint64_t DataOrder::first_byte(std::uint64_t step, std::uint32_t micro_batch,
                                    std::uint32_t sequence) const {
  const std::uint64_t dealt = (step * logical_batches_ + micro_batch) * micro_batch_ + sequence;
  return shuffled(dealt / windows_, dealt % windows_) * context_;
}

std::uint64_t DataOrder::shuffled(std::uint64_t pass, std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // A permutation of 4^half_bits numbers, at most four times too many: a few walks on average.
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t scrambled = mix(seed_ ^ mix(pass * kRounds + round) ^ right) & mask;
      left = std::exchange(right, left ^ scrambled);
    }
    index = left << half_bits_ | right;
  } while (index >= windows_);
  return index;
}

}  // namespace dlaunch::trainer
