#include "trainer/checkpoint/io/aligned_buffer.h"

namespace dlaunch::checkpoint {

bool AlignedBuffer::reserve(std::size_t bytes) {
  const std::size_t wanted = round_up_to_block(bytes);
  if (wanted <= size_) return true;
  // The old one goes first: both at once would double the peak.
  memory_.reset();
  size_ = 0;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, wanted)));
  if (memory_ == nullptr) return false;
  size_ = wanted;
  return true;
}

}  // namespace dlaunch::checkpoint
