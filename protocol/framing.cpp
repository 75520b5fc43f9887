#include "protocol/framing.h"

#include "base/check.h"
#include "protocol/limits.h"

namespace dlaunch::protocol {
namespace {
constexpr std::size_t kHeaderBytes = 4;
}

std::string frame(std::string_view message) {
  DL_CHECK(!message.empty() && message.size() <= kFrameBytesMax,
           "a frame of ours is within the limit");
  const auto length = static_cast<std::uint32_t>(message.size());
  std::string bytes;
  bytes.reserve(kHeaderBytes + message.size());
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<char>((length >> shift) & 0xFFU));
  bytes.append(message);
  return bytes;
}

Result<std::optional<std::string>> FrameReader::next() {
  const auto available = buffer_.size() - taken_;
  if (available < kHeaderBytes) return std::optional<std::string>{};
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    length = (length << 8U) | static_cast<unsigned char>(buffer_[taken_ + i]);
  }
  if (length == 0 || length > message_bytes_max_) {
    return failure(std::errc::message_size,
                   "reading a frame that says it has " + std::to_string(length) +
                       " bytes where 1 to " + std::to_string(message_bytes_max_) + " are allowed");
  }
  if (available < kHeaderBytes + length) return std::optional<std::string>{};
  std::optional<std::string> message(buffer_.substr(taken_ + kHeaderBytes, length));
  taken_ += kHeaderBytes + length;
  if (taken_ == buffer_.size() || taken_ > kFrameBytesMax) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  return message;
}

}  // namespace dlaunch::protocol
