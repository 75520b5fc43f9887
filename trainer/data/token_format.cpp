// The layouts are those of karpathy/llm.c (dev/data/data_common.py), karpathy/nanoGPT
// (data/*/prepare.py) and NVIDIA/Megatron-LM (core/datasets/indexed_dataset.py).
#include "trainer/data/token_format.h"

#include <algorithm>
#include <cstring>

namespace dlaunch::trainer {
namespace {

struct LlmcKind {
  std::uint32_t magic, version, width;
};
constexpr LlmcKind kLlmcNarrow{20240520, 1, 2}, kLlmcWide{20240801, 7, 4};
constexpr std::uint32_t kLlmcQuestions = 20240522;  // multiple-choice questions, no stream of ids

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kIndexHeadBytes = 34;  // magic, version, type, sequences, documents

struct Foreign {
  std::string_view begin, what;
};
/// What files begin with that are taken for bare ids by mistake.
constexpr std::array kForeign{
    Foreign{"\x93NUMPY", "a NumPy file (save the array with tofile instead)"},
    Foreign{std::string_view("PK\x03\x04", 4), "a zip archive, as NumPy and PyTorch write them"},
    Foreign{"\x1f\x8b\x08", "compressed with gzip"},
    Foreign{"\x28\xb5\x2f\xfd", "compressed with zstd"},
    Foreign{"PAR1", "a Parquet table"},
    Foreign{"ARROW1", "an Arrow table"},
};

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::uint64_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

bool begins_with(std::span<const std::byte> bytes, std::string_view begin) {
  return bytes.size() >= begin.size() && std::memcmp(bytes.data(), begin.data(), begin.size()) == 0;
}

tl::unexpected<Error> refused(std::string why) {
  return tl::unexpected(Error{std::make_error_code(std::errc::invalid_argument), std::move(why)});
}

Result<TokenFile> read_llmc(std::span<const std::byte> file, const LlmcKind& kind) {
  if (file.size() < kLlmcHeadBytes) {
    return refused("it ends within its head: it is cut off; copy or make it again");
  }
  const auto version = number_at<std::uint32_t>(file, 4);
  if (version != kind.version) {
    return refused("it is llm.c's of version " + std::to_string(version) + ", and version " +
                   std::to_string(kind.version) + " is known");
  }
  const auto tokens = number_at<std::int32_t>(file, 8);
  const auto there = (file.size() - kLlmcHeadBytes) / kind.width;
  const bool whole = (file.size() - kLlmcHeadBytes) % kind.width == 0;
  if (tokens < 0 || static_cast<std::uint64_t>(tokens) != there || !whole) {
    return refused("its head (llm.c's) promises " + std::to_string(tokens) + " ids, " +
                   std::to_string(there) + (whole ? "" : " and a piece") +
                   " are there: it is cut off or damaged; copy or make it again");
  }
  return TokenFile{"llm.c", TokenView(file.subspan(kLlmcHeadBytes), kind.width)};
}

/// Of an id by the number that Megatron gives its type; 0: not one of ours.
std::uint32_t width_of_type(std::uint8_t type) {
  constexpr std::uint8_t kUint8 = 1, kInt32 = 4, kUint16 = 8;
  return type == kUint8 ? 1 : type == kUint16 ? 2 : type == kInt32 ? 4 : 0;
}

}  // namespace

bool is_megatron_index(std::span<const std::byte> file) { return begins_with(file, kIndexMagic); }

Result<TokenFile> read_plain_tokens(std::span<const std::byte> file) {
  if (file.size() >= sizeof(std::uint32_t)) {
    const auto magic = number_at<std::uint32_t>(file, 0);
    for (const auto& kind : {kLlmcNarrow, kLlmcWide}) {
      if (magic == kind.magic) return read_llmc(file, kind);
    }
    if (magic == kLlmcQuestions) {
      return refused("it holds llm.c's multiple-choice questions, which are no text to train on");
    }
  }
  if (is_megatron_index(file)) {
    return refused(
        "it is an index of Megatron's; its name must end in .idx, with the ids in a "
        "file beside it that ends in .bin");
  }
  for (const auto& foreign : kForeign) {
    if (begins_with(file, foreign.begin)) {
      return refused("it is " + std::string(foreign.what) + "; needed are bare ids");
    }
  }
  if (file.size() % 2 != 0) {
    return refused("it has " + std::to_string(file.size()) +
                   " bytes: a file without a head holds ids of two bytes (nanoGPT's), so this one "
                   "is cut off or something else; a text is named by `text`");
  }
  return TokenFile{"nanoGPT", TokenView(file, 2)};
}

Result<TokenFile> read_indexed_tokens(std::span<const std::byte> index,
                                      std::span<const std::byte> file) {
  if (!is_megatron_index(index)) return refused("the index is not one of Megatron's");
  const std::string cut = "the index is cut off or damaged; copy or make it again";
  if (index.size() < kIndexHeadBytes) return refused(cut);
  const auto version = number_at<std::uint64_t>(index, 9);
  if (version != 1) {
    return refused("the index is of version " + std::to_string(version) + ", 1 is known");
  }
  const auto type = number_at<std::uint8_t>(index, 17);
  const auto width = width_of_type(type);
  if (width == 0) {
    return refused("its ids are of Megatron's type " + std::to_string(type) +
                   "; known are 8 (uint16), 4 (int32) and 1 (uint8)");
  }
  const auto sequences = number_at<std::uint64_t>(index, 18);
  constexpr std::uint64_t kSequenceBytes = 4 + 8;  // a length and a place
  if (sequences > (index.size() - kIndexHeadBytes) / kSequenceBytes) return refused(cut);
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const auto length = number_at<std::int32_t>(index, kIndexHeadBytes + 4 * i);
    const auto place = number_at<std::uint64_t>(index, kIndexHeadBytes + 4 * sequences + 8 * i);
    if (length < 0) return refused(cut);
    if (place != next) {
      return refused("sequence " + std::to_string(i) + " of the index lies at byte " +
                     std::to_string(place) + ", not behind the one before it (" +
                     std::to_string(next) + "): only sequences in a row can be read");
    }
    next += static_cast<std::uint64_t>(length) * width;
    if (next > file.size()) break;
  }
  if (next != file.size()) {
    return refused("the index knows of " + std::string(next > file.size() ? "more than " : "") +
                   std::to_string(next > file.size() ? file.size() : next) + " bytes of ids, " +
                   std::to_string(file.size()) +
                   " are there: the two files do not belong together, or one is cut off");
  }
  return TokenFile{"Megatron", TokenView(file, width)};
}

std::array<std::byte, kLlmcHeadBytes> llmc_head(std::uint32_t tokens, bool wide) {
  const auto& kind = wide ? kLlmcWide : kLlmcNarrow;
  std::array<std::byte, kLlmcHeadBytes> head{};
  const std::array<std::uint32_t, 3> numbers{kind.magic, kind.version, tokens};
  std::memcpy(head.data(), numbers.data(), sizeof numbers);
  return head;
}

}  // namespace dlaunch::trainer
