#include "trainer/comm/io/comparison.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trainer/comm/byte_order.h"

namespace dlaunch::comm {
namespace {

/// sequence, operation, bytes, shape: 8 each.
using Call = std::array<std::byte, 32>;
/// More names would not fit into a log's line.
constexpr std::size_t kNamesMax = 8;

Call call_of(const Stage& stage, std::uint64_t shape) {
  Call call{};
  put(std::span<std::byte>(call), 0, stage.sequence);
  put(std::span<std::byte>(call), 8, static_cast<std::uint64_t>(stage.operation));
  put(std::span<std::byte>(call), 16, stage.total);
  put(std::span<std::byte>(call), 24, shape);
  return call;
}

std::string describe(const Call& call) {
  const auto operation = static_cast<Operation>(get<std::uint64_t>(call, 8));
  return std::string(name_of(operation)) + " " + std::to_string(get<std::uint64_t>(call, 0)) +
         " of " + std::to_string(get<std::uint64_t>(call, 16)) + " bytes";
}

/// What most ranks do; of equally many that of the lowest rank.
const Call& most_frequent(const std::vector<Call>& calls) {
  return *std::ranges::max_element(
      calls, {}, [&](const Call& call) { return std::ranges::count(calls, call); });
}

CommFailure differ(const Exchange& exchange, const Group& group, const std::vector<Call>& calls) {
  const Call& right = most_frequent(calls);
  std::string names;
  std::size_t others = 0;
  const Call* wrong = nullptr;
  Rank suspect;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    if (calls[member] == right) continue;
    if (wrong == nullptr) {
      wrong = &calls[member];
      suspect = group.members[member];
    }
    const Rank rank = group.members[member];
    if (others++ < kNamesMax) names += (names.empty() ? "" : ", ") + exchange.name_of(rank);
  }
  if (others > kNamesMax) names += " and " + std::to_string(others - kNamesMax) + " more";
  std::string doing = "the ranks of group " + group.name +
                      " do not call the same collective: " + names +
                      (others == 1 ? " is" : " are") + " in " + describe(*wrong) +
                      ", the others in " + describe(right);
  if (describe(*wrong) == describe(right)) doing += " with other parts or another root";
  return {FailureKind::mismatch, {{}, std::move(doing)}, suspect};
}

}  // namespace

CommResult<void> compare_calls(Exchange& exchange, const Stage& stage, std::uint64_t shape,
                               Scratch& scratch) {
  const Group& group = exchange.group_of(stage);
  std::vector<Call> calls(group.size(), call_of(stage, shape));
  scratch.transfers.assign(group.size(), {});
  for (std::uint32_t member = 0; member < group.size(); ++member) {
    scratch.transfers[member].send = std::span<const std::byte>(calls[group.self]);
    scratch.transfers[member].receive = std::span<std::byte>(calls[member]);
  }
  Stage comparison = stage;
  comparison.operation = Operation::comparison;
  comparison.total = 0;
  comparison.sequence = 0;  // whoever has left out an operation is to be found by what it says
  comparison.last = false;
  if (auto moved = exchange.run(comparison, scratch.transfers); !moved) return moved;
  const bool all_same =
      std::ranges::all_of(calls, [&](const Call& call) { return call == calls[group.self]; });
  if (all_same) return {};
  return tl::unexpected(differ(exchange, group, calls));
}

}  // namespace dlaunch::comm
