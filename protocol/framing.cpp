#include "protocol/framing.h"

#include <algorithm>
#include <utility>

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

Result<std::size_t> FrameReader::length_in(std::string_view header) const {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    length = (length << 8U) | static_cast<unsigned char>(header[i]);
  }
  if (length == 0 || length > message_bytes_max_) {
    return failure(std::errc::message_size,
                   "reading a frame that says it has " + std::to_string(length) +
                       " bytes where 1 to " + std::to_string(message_bytes_max_) + " are allowed");
  }
  return length;
}

Result<std::optional<std::string>> FrameReader::next() {
  const auto available = buffer_.size() - taken_;
  if (available < kHeaderBytes) return std::optional<std::string>{};
  const auto said = length_in(std::string_view(buffer_).substr(taken_));
  if (!said) return tl::unexpected(said.error());
  const auto length = *said;
  if (available < kHeaderBytes + length) return std::optional<std::string>{};
  std::optional<std::string> message(buffer_.substr(taken_ + kHeaderBytes, length));
  taken_ += kHeaderBytes + length;
  if (taken_ == buffer_.size() || taken_ > kFrameBytesMax) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  return message;
}

Result<std::optional<std::string_view>> FrameReader::cut(std::string_view& bytes) {
  if (std::exchange(was_cut_, false)) buffer_ = {};  // most of the time nothing is kept
  const auto take = [&](std::size_t up_to) {
    const auto count = std::min(up_to - buffer_.size(), bytes.size());
    buffer_.append(bytes.substr(0, count));
    bytes.remove_prefix(count);
  };
  if (buffer_.empty() && bytes.size() >= kHeaderBytes) {
    const auto length = length_in(bytes);
    if (!length) return tl::unexpected(length.error());
    if (bytes.size() >= kHeaderBytes + *length) {
      const auto message = bytes.substr(kHeaderBytes, *length);
      bytes.remove_prefix(kHeaderBytes + *length);
      return message;
    }
  }
  if (buffer_.size() < kHeaderBytes) take(kHeaderBytes);
  if (buffer_.size() < kHeaderBytes) return std::optional<std::string_view>{};
  const auto length = length_in(buffer_);
  if (!length) return tl::unexpected(length.error());
  take(kHeaderBytes + *length);
  if (buffer_.size() < kHeaderBytes + *length) return std::optional<std::string_view>{};
  was_cut_ = true;
  return std::string_view(buffer_).substr(kHeaderBytes);
}

}  // namespace dlaunch::protocol
