// Files of token ids, with Megatron's index and without.
#include <algorithm>
#include <span>

#include "base/check.h"
#include "tests/fuzz/target.h"
#include "trainer/data/token_format.h"

namespace dlaunch::fuzz {
namespace {

void look_at(const Result<trainer::TokenFile>& read, std::size_t file_bytes) {
  if (!read) {
    DL_CHECK(!read.error().doing.empty(), "a refusal has a reason");
    return;
  }
  const auto& tokens = read->tokens;
  DL_CHECK(tokens.size() * tokens.width() <= file_bytes, "all ids are in the file");
  const auto largest = tokens.largest(0, tokens.size());
  DL_CHECK(!tokens.find_outside(std::uint64_t{largest} + 1, 0, tokens.size()),
           "none is larger than the largest");
}

}  // namespace

/// The first byte says how many of the others are the index.
void token_files(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto wanted = static_cast<unsigned char>(bytes.front());
  const auto rest = std::as_bytes(std::span(bytes.substr(1)));
  const auto index = rest.first(std::min<std::size_t>(wanted, rest.size()));
  const auto file = rest.subspan(index.size());
  look_at(trainer::read_plain_tokens(rest), rest.size());
  look_at(trainer::read_indexed_tokens(index, file), file.size());
}

}  // namespace dlaunch::fuzz
