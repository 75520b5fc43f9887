#include "trainer/data/io/training_data.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "protocol/token_paths.h"
#include "trainer/data/token_format.h"

namespace dlaunch::trainer {
namespace {

tl::unexpected<Error> refused(std::string why) {
  return tl::unexpected(Error{std::make_error_code(std::errc::invalid_argument), std::move(why)});
}

/// A nanoGPT file has nothing that tells it apart; one that Megatron's index lies beside is none.
std::string index_beside(const std::string& path) {
  const auto index = std::filesystem::path(path).replace_extension(".idx").string();
  const auto mapped = MappedFile::open(index, "");
  return mapped && is_megatron_index(mapped->bytes()) ? index : std::string();
}

Result<TokenFile> read_ids(const std::string& path, std::span<const std::byte> file,
                           const std::string& doing) {
  if (!protocol::is_index_path(path)) {
    auto read = read_plain_tokens(file);
    if (!read || read->format != "nanoGPT") return read;
    if (const auto index = index_beside(path); !index.empty()) {
      return refused("Megatron's index " + index + " lies beside it; name that one: tokens = \"" +
                     index + "\"");
    }
    return read;
  }
  const auto index = MappedFile::open(path, doing);
  if (!index) return tl::unexpected(index.error());
  return read_indexed_tokens(index->bytes(), file);
}

}  // namespace

TrainingData::TrainingData(MappedFile file, std::string path, TokenView tokens, std::string format)
    : file_(std::move(file)), path_(std::move(path)), tokens_(tokens), format_(std::move(format)) {}

Result<TrainingData> TrainingData::open(const DataSettings& settings, std::uint64_t tokens_min) {
  const bool text = settings.tokens.empty();
  const auto path = text ? settings.text : protocol::ids_path(settings.tokens);
  const auto doing = "reading the " + std::string(text ? "training text " : "token file ") + path;
  auto file = MappedFile::open(path, doing);
  if (!file) return tl::unexpected(file.error());
  TokenView tokens(file->bytes(), 1);
  std::string format = "text";
  if (!text) {
    const auto read = read_ids(settings.tokens, file->bytes(), doing);
    if (!read && read.error().code != std::errc::invalid_argument)
      return tl::unexpected(read.error());
    if (!read) return refused(doing + ": " + read.error().doing);
    tokens = read->tokens;
    format = read->format;
  }
  if (tokens.size() < tokens_min) {
    return refused(doing + ": it has " + std::to_string(tokens.size()) +
                   (text ? " bytes" : " token ids") + ", and one sequence needs " +
                   std::to_string(tokens_min) + " ([trainer.model] context + 1)");
  }
  return TrainingData(std::move(*file), path, tokens, std::move(format));
}

Result<void> TrainingData::check_ids(std::uint64_t vocabulary, std::uint64_t first,
                                     std::uint64_t count) const {
  const auto place = tokens_.find_outside(vocabulary, first, count);
  if (!place) return {};
  const auto id = tokens_.largest(*place, 1);
  return refused(path_ + " (read as " + format_ + "'s): id " + std::to_string(id) + " at place " +
                 std::to_string(*place) + " of " + std::to_string(tokens_.size()) +
                 " is outside the vocabulary of " + std::to_string(vocabulary) +
                 "; set [trainer.model] vocabulary to the number of ids that its tokenizer has, "
                 "or name the file that belongs to this vocabulary");
}

}  // namespace dlaunch::trainer
