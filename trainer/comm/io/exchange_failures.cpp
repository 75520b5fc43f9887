// What is said when an exchange ends before it is done.
#include <cerrno>
#include <system_error>

#include "trainer/comm/io/exchange.h"

namespace dlaunch::comm {
namespace {

/// The sentence says all; a system code behind it would only puzzle.
CommFailure failed(FailureKind kind, std::string doing,
                   std::optional<Rank> suspect = std::nullopt) {
  return {kind, {{}, std::move(doing)}, suspect};
}

}  // namespace

std::string Exchange::sentence_of(const Stage& stage) const {
  std::string sentence =
      std::string(comm::name_of(stage.operation)) + " " + std::to_string(stage.sequence);
  if (stage.group != nullptr && stage.group->number != 0) {
    sentence += " of group " + stage.group->name;
  }
  return sentence;
}

CommResult<void> Exchange::ended(const Stage& stage) const {
  if (abort_->is_set()) {
    return tl::unexpected(
        failed(FailureKind::aborted, sentence_of(stage) + " was ended: " + abort_->reason()));
  }
  if (closed_.is_set()) {
    return tl::unexpected(
        failed(FailureKind::local, sentence_of(stage) + " was ended: " + closed_.reason()));
  }
  return {};
}

CommFailure Exchange::lost(const Stage& stage, std::uint32_t rank, int error) const {
  std::string doing = names_[rank] + " closed the connection during " + sentence_of(stage);
  if (error == 0 || error == EPIPE) error = ECONNRESET;
  if (error != ECONNRESET) {
    doing = "the connection to " + names_[rank] + " broke during " + sentence_of(stage);
  }
  return {FailureKind::peer_lost,
          {std::error_code(error, std::generic_category()), std::move(doing)},
          Rank{rank}};
}

CommFailure Exchange::left(const Stage& stage, std::uint32_t rank, const Leaving& leaving) const {
  std::string doing = names_[rank] + " left " + sentence_of(stage);
  std::optional<Rank> suspect = leaving.suspect;
  if (leaving.kind == FailureKind::aborted) {
    doing += " because the generation was ended";
  } else if (suspect == self_) {
    doing += " because it lost the connection to this rank";
  } else if (suspect && suspect->value < names_.size()) {
    doing += " because of " + names_[suspect->value];
  } else {
    suspect = Rank{rank};
  }
  const auto kind = leaving.kind == FailureKind::local ? FailureKind::peer_lost : leaving.kind;
  return failed(kind, std::move(doing), suspect);
}

CommFailure Exchange::mismatch(const Stage& stage, std::uint32_t rank, const Frame& expected,
                               const std::optional<Frame>& frame) const {
  if (!frame) {
    return failed(
        FailureKind::mismatch,
        names_[rank] + " sent what is no message of the mesh during " + sentence_of(stage),
        Rank{rank});
  }
  return failed(
      FailureKind::mismatch,
      names_[rank] + " is in " + describe(*frame) + " while this rank is in " + describe(expected),
      Rank{rank});
}

CommFailure Exchange::late(const Stage& stage) const {
  const std::string what = sentence_of(stage);
  for (std::uint32_t rank = 0; rank < names_.size(); ++rank) {
    const Progress& progress = progress_[rank];
    if (!progress.receiving()) continue;
    const bool begun = progress.received > 0 || stage.phase > 0;
    return failed(
        FailureKind::timed_out,
        names_[rank] + (begun ? " stopped in the middle of " : " did not come to ") + what,
        Rank{rank});
  }
  for (std::uint32_t rank = 0; rank < names_.size(); ++rank) {
    if (!progress_[rank].sending()) continue;
    return failed(FailureKind::timed_out, names_[rank] + " stopped reading during " + what,
                  Rank{rank});
  }
  return failed(FailureKind::timed_out, what + " took too long");
}

}  // namespace dlaunch::comm
