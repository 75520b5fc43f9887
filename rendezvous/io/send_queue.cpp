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
// Of larger ones a copy for each receiver would cost more than two more TLS records.
constexpr std::size_t kCopiedBytesMax = 2 * 1024;

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

/// Number and acknowledgement, which differ between the receivers of a frame, stand at its end.
std::size_t write_suffix(std::array<char, kSuffixBytesMax>& suffix, std::uint64_t number,
                         std::uint64_t acknowledged) {
  using google::protobuf::io::CodedOutputStream;
  auto* const begin = reinterpret_cast<std::uint8_t*>(suffix.data());
  auto* end = begin;
  const auto add = [&end](int field, std::uint64_t value) {
    end = CodedOutputStream::WriteTagToArray(static_cast<std::uint32_t>(field) << 3U, end);
    end = CodedOutputStream::WriteVarint64ToArray(value, end);
  };
  add(ControllerFrame::kNumberFieldNumber, number);
  add(ControllerFrame::kAcknowledgedFieldNumber, acknowledged);
  return static_cast<std::size_t>(end - begin);
}

void append_header(std::string& bytes, std::size_t length) {
  for (std::size_t i = 0; i < kHeaderBytes; ++i) {
    bytes.push_back(static_cast<char>((length >> (8 * (kHeaderBytes - 1 - i))) & 0xFFU));
  }
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

void SendQueue::take(Outgoing& out, Instant now, std::uint64_t acknowledged,
                     std::size_t bytes_max) {
  for (auto& queue : waiting_) {
    for (; !queue.empty(); queue.pop_front()) {
      auto& frame = queue.front();
      const auto& body = frame->body;
      const bool large = body.size() > kCopiedBytesMax;
      if (!out.empty() && (large || out.bytes.size() + body.size() > bytes_max)) return;
      std::array<char, kSuffixBytesMax> suffix{};
      const auto suffix_bytes = write_suffix(suffix, ++last_number_, acknowledged);
      append_header(out.bytes, body.size() + suffix_bytes);
      waiting_bytes_ -= body.size();
      sent_.push_back({last_number_, now});
      if (sent_.size() > kSentKeptMax) sent_.pop_front();
      if (large) {
        out.end.assign(suffix.data(), suffix_bytes);
        out.large = std::move(frame);
        return queue.pop_front();
      }
      out.bytes.append(body);
      out.bytes.append(suffix.data(), suffix_bytes);
    }
  }
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
