#include "rendezvous/io/send_queue.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "base/check.h"
#include "protocol/limits.h"
#include "protocol/wire_text.h"

namespace dlaunch::rendezvous {
namespace {

using protocol::ControllerFrame;
using Urgency = OutgoingFrame::Urgency;

constexpr std::size_t kHeaderBytes = 4;
// Two tags of one byte and two 64-bit varints of at most ten.
constexpr std::size_t kSuffixBytesMax = 22;

Urgency urgency_of(const ControllerFrame& frame) {
  switch (frame.body_case()) {
    case ControllerFrame::kWelcome:
      return Urgency::welcome;
    case ControllerFrame::kAbort:
      return Urgency::abort;
    case ControllerFrame::kBeat:
    case ControllerFrame::kEvidenceAcknowledged:
      return Urgency::beat;
    default:
      return Urgency::order;
  }
}

void append_varint_field(std::string& bytes, int field, std::uint64_t value) {
  std::array<std::uint8_t, kSuffixBytesMax> encoded{};
  const auto tag = static_cast<std::uint32_t>(field) << 3U;
  auto* end = google::protobuf::io::CodedOutputStream::WriteTagToArray(tag, encoded.data());
  end = google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(value, end);
  bytes.append(encoded.begin(), encoded.begin() + (end - encoded.data()));
}

}  // namespace

std::shared_ptr<const OutgoingFrame> make_outgoing(ControllerFrame frame) {
  protocol::make_text_valid(frame);
  auto made = std::make_shared<OutgoingFrame>();
  made->urgency = urgency_of(frame);
  made->body = frame.SerializeAsString();
  DL_CHECK(made->body.size() + kSuffixBytesMax <= protocol::kFrameBytesMax,
           "a frame of ours is within the limit");
  return made;
}

bool SendQueue::push(std::shared_ptr<const OutgoingFrame> frame) {
  auto& queue = waiting_.at(static_cast<std::size_t>(frame->urgency));
  if (frame->urgency == Urgency::beat && !queue.empty() && queue.back()->body == frame->body) {
    return true;
  }
  if (waiting_bytes_ + frame->body.size() > protocol::kSendQueueBytesMax) return false;
  waiting_bytes_ += frame->body.size();
  queue.push_back(std::move(frame));
  return true;
}

bool SendQueue::empty() const { return waiting_bytes_ == 0; }

std::string SendQueue::take(Instant now, std::uint64_t acknowledged, std::size_t bytes_max) {
  std::string bytes;
  for (auto& queue : waiting_) {
    while (!queue.empty()) {
      const auto& body = queue.front()->body;
      if (!bytes.empty() && bytes.size() + body.size() > bytes_max) return bytes;
      const auto start = bytes.size();
      bytes.append(kHeaderBytes, '\0');
      bytes.append(body);
      append_varint_field(bytes, ControllerFrame::kNumberFieldNumber, ++last_number_);
      append_varint_field(bytes, ControllerFrame::kAcknowledgedFieldNumber, acknowledged);
      const auto length = bytes.size() - start - kHeaderBytes;
      for (std::size_t i = 0; i < kHeaderBytes; ++i) {
        bytes[start + i] = static_cast<char>((length >> (8 * (kHeaderBytes - 1 - i))) & 0xFFU);
      }
      sent_.push_back({last_number_, now});
      if (sent_.size() > kSentKeptMax) sent_.pop_front();
      waiting_bytes_ -= body.size();
      queue.pop_front();
    }
  }
  return bytes;
}

Result<std::optional<Instant>> SendQueue::on_acknowledged(std::uint64_t number) {
  if (number > last_number_) {
    return failure(std::errc::protocol_error, "it acknowledges frame " + std::to_string(number) +
                                                  " of " + std::to_string(last_number_));
  }
  if (number > acknowledged_) {
    acknowledged_ = number;
    acknowledged_sent_at_.reset();
    while (!sent_.empty() && sent_.front().number <= number) {
      if (sent_.front().number == number) acknowledged_sent_at_ = sent_.front().at;
      sent_.pop_front();
    }
  }
  return acknowledged_sent_at_;
}

}  // namespace dlaunch::rendezvous
