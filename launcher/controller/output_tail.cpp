#include "launcher/controller/output_tail.h"

#include <algorithm>
#include <utility>

namespace dlaunch::launcher::controller {

OutputChunk OutputTail::add(HostId host, Generation generation, const protocol::LogLines& lines) {
  OutputChunk chunk{generation, Rank{lines.rank()}, host, lines.error_stream(), lines.text()};
  if (lines.dropped() > 0) {
    chunk.text = "[dlaunch: " + std::to_string(lines.dropped()) +
                 " lines were not sent; they are in the host's log]\n" + chunk.text;
  }
  auto& kept = kept_[generation][chunk.rank];
  kept.bytes += chunk.text.size();
  bytes_ += chunk.text.size();
  kept.chunks.push_back(chunk);
  shorten(kept, kBytesPerRankMax);
  shorten_all();
  return chunk;
}

void OutputTail::shorten(Kept& kept, std::size_t bytes_max) {
  while (kept.bytes > bytes_max && !kept.chunks.empty()) {
    auto& text = kept.chunks.front().text;
    const auto excess = std::min(kept.bytes - bytes_max, text.size());
    // Whole lines stay; a chunk without a later line goes altogether.
    const auto end = text.find('\n', excess == 0 ? 0 : excess - 1);
    const auto cut = end == std::string::npos ? text.size() : end + 1;
    text.erase(0, cut);
    kept.bytes -= cut;
    bytes_ -= cut;
    if (text.empty()) kept.chunks.pop_front();
  }
}

void OutputTail::shorten_all() {
  while (kept_.size() > kGenerationsMax || (bytes_ > kBytesMax && kept_.size() > 1)) {
    for (auto& [rank, kept] : kept_.begin()->second) bytes_ -= kept.bytes;
    kept_.erase(kept_.begin());
  }
  if (bytes_ <= kBytesMax) return;
  auto& ranks = kept_.begin()->second;
  for (auto& [rank, kept] : ranks) shorten(kept, kBytesMax / ranks.size());
}

std::vector<OutputChunk> OutputTail::all() const {
  std::vector<OutputChunk> chunks;
  for (const auto& [generation, ranks] : kept_) {
    for (const auto& [rank, kept] : ranks) {
      chunks.insert(chunks.end(), kept.chunks.begin(), kept.chunks.end());
    }
  }
  return chunks;
}

}  // namespace dlaunch::launcher::controller
