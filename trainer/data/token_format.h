// The files of token ids that can be trained on: told apart, judged, and one of them written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "trainer/data/tokens.h"

namespace dlaunch::trainer {

/// Of llm.c's files: 256 whole numbers of four bytes, of which three are used.
constexpr std::size_t kLlmcHeadBytes = 1024;
/// Its number of ids is a positive int32.
constexpr std::uint64_t kLlmcTokensMax = 0x7fffffff;

struct TokenFile {
  std::string_view format;  ///< "llm.c", "nanoGPT", "Megatron"
  TokenView tokens;
};

/// llm.c's by its head, else nanoGPT's, which has none: bare ids of two bytes. The error says what
/// is wrong with the file and what it seems to be; its code is `errc::invalid_argument`.
[[nodiscard]] Result<TokenFile> read_plain_tokens(std::span<const std::byte> file);
/// Megatron's: `index` says how wide the ids of `file` are and where each sequence lies; they are
/// taken one after another, which must be how they lie.
[[nodiscard]] Result<TokenFile> read_indexed_tokens(std::span<const std::byte> index,
                                                    std::span<const std::byte> file);
/// True when these are the first bytes of Megatron's index.
[[nodiscard]] bool is_megatron_index(std::span<const std::byte> file);

/// The head of llm.c's file of so many ids: of two bytes each, or with `wide` of four.
[[nodiscard]] std::array<std::byte, kLlmcHeadBytes> llmc_head(std::uint32_t tokens, bool wide);

}  // namespace dlaunch::trainer
