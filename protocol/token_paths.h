// Which files a token file's path names: the launcher compares them on all hosts, the trainer reads
// them.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::protocol {

inline constexpr std::string_view kIndexSuffix = ".idx";

/// True for a name that ends in ".idx": Megatron's index.
[[nodiscard]] inline bool is_index_path(std::string_view tokens_path) {
  return tokens_path.size() > kIndexSuffix.size() && tokens_path.ends_with(kIndexSuffix);
}

/// Where the ids are: beside a Megatron index, else the file itself.
[[nodiscard]] inline std::string ids_path(const std::string& tokens_path) {
  if (!is_index_path(tokens_path)) return tokens_path;
  return tokens_path.substr(0, tokens_path.size() - kIndexSuffix.size()) + ".bin";
}

}  // namespace dlaunch::protocol
