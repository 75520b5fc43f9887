#include "trainer/checkpoint/layout.h"

#include <charconv>

#include "base/check.h"

namespace dlaunch::checkpoint {
namespace {

/// Takes a canonical decimal number (no sign, no leading zero) off the front.
std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || (text.front() == '0' && length > 1)) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

RowRange rows_of_rank(std::uint64_t rows, std::uint32_t world_size, Rank rank) {
  DL_CHECK(rank.value < world_size, "ranks are dense from 0");
  // The first `longer` ranks take one row more: the same as rows * rank / world_size in spirit,
  // without a product that could overflow.
  const std::uint64_t each = rows / world_size;
  const std::uint64_t longer = rows % world_size;
  const std::uint64_t before = rank.value < longer ? rank.value : longer;
  return {each * rank.value + before, each + (rank.value < longer ? 1 : 0)};
}

std::string shard_name(std::uint32_t world_size, Rank rank) {
  return "shard-" + std::to_string(rank.value) + "-of-" + std::to_string(world_size) +
         ".safetensors";
}

bool is_shard_name(std::string_view name) {
  if (!take(name, "shard-")) return false;
  const auto rank = take_number(name);
  if (!rank || !take(name, "-of-")) return false;
  const auto world_size = take_number(name);
  return world_size && *rank < *world_size && name == ".safetensors";
}

std::string step_directory_name(Step step) { return "step-" + std::to_string(step.value); }

std::string partial_directory_name(Step step, Generation generation) {
  return step_directory_name(step) + ".g" + std::to_string(generation.value) + ".partial";
}

std::optional<Step> step_of_directory(std::string_view name) {
  if (!take(name, "step-")) return std::nullopt;
  const auto step = take_number(name);
  if (!step || !name.empty()) return std::nullopt;
  return Step{*step};
}

}  // namespace dlaunch::checkpoint
