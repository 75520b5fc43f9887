#include "launcher/controller/output_tail.h"

#include <algorithm>
#include <utility>

namespace dlaunch::launcher::controller {

OutputPiece OutputTail::add(HostId host, Generation generation, const protocol::LogLines& lines) {
  OutputChunk chunk{generation, Rank{lines.rank()}, host, "", lines.error_stream(), lines.text()};
  if (const auto name = host_names_.find(host); name != host_names_.end()) {
    chunk.host_name = name->second;
  }
  if (lines.dropped() > 0) {
    chunk.text = "[dlaunch: " + std::to_string(lines.dropped()) +
                 " lines were not sent; they are in the host's log]\n" + chunk.text;
  }
  const auto piece = std::make_shared<const OutputChunk>(std::move(chunk));
  auto& of_generation = kept_[generation];
  of_generation.unsaved = true;
  auto& kept = of_generation.ranks[piece->rank];
  kept.bytes += piece->text.size();
  bytes_ += piece->text.size();
  kept.pieces.push_back(piece);
  shorten(kept, kBytesPerRankMax);
  shorten_all();
  return piece;
}

void OutputTail::shorten(Kept& kept, std::size_t bytes_max) {
  while (kept.bytes > bytes_max && !kept.pieces.empty()) {
    const auto& text = kept.pieces.front()->text;
    const auto excess = std::min(kept.bytes - bytes_max, text.size());
    // Whole lines stay; a chunk without a later line goes altogether.
    const auto end = text.find('\n', excess == 0 ? 0 : excess - 1);
    const auto cut = end == std::string::npos ? text.size() : end + 1;
    kept.bytes -= cut;
    bytes_ -= cut;
    if (cut == text.size()) {
      kept.pieces.pop_front();
      continue;
    }
    auto shortened = *kept.pieces.front();
    shortened.text.erase(0, cut);
    kept.pieces.front() = std::make_shared<const OutputChunk>(std::move(shortened));
  }
}

void OutputTail::shorten_all() {
  while (kept_.size() > kGenerationsMax || (bytes_ > kBytesMax && kept_.size() > 1)) {
    for (auto& [rank, kept] : kept_.begin()->second.ranks) bytes_ -= kept.bytes;
    kept_.erase(kept_.begin());
  }
  if (bytes_ <= kBytesMax) return;
  auto& ranks = kept_.begin()->second.ranks;
  for (auto& [rank, kept] : ranks) shorten(kept, kBytesMax / ranks.size());
}

std::vector<OutputPiece> OutputTail::all() const {
  std::vector<OutputPiece> pieces;
  for (const auto& [generation, kept] : kept_) {
    const auto some = of(generation);
    pieces.insert(pieces.end(), some.begin(), some.end());
  }
  return pieces;
}

std::vector<OutputPiece> OutputTail::of(Generation generation) const {
  std::vector<OutputPiece> pieces;
  const auto found = kept_.find(generation);
  if (found == kept_.end()) return pieces;
  for (const auto& [rank, kept] : found->second.ranks) {
    pieces.insert(pieces.end(), kept.pieces.begin(), kept.pieces.end());
  }
  return pieces;
}

std::optional<Generation> OutputTail::newest() const {
  if (kept_.empty()) return std::nullopt;
  return kept_.rbegin()->first;
}

std::vector<Generation> OutputTail::unsaved() const {
  std::vector<Generation> generations;
  for (const auto& [generation, kept] : kept_) {
    if (kept.unsaved) generations.push_back(generation);
  }
  return generations;
}

void OutputTail::saved(Generation generation) {
  const auto found = kept_.find(generation);
  if (found != kept_.end()) found->second.unsaved = false;
}

}  // namespace dlaunch::launcher::controller
