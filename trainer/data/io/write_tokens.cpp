#include "trainer/data/io/write_tokens.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "base/io/file_descriptor.h"
#include "trainer/data/io/training_data.h"
#include "trainer/data/token_format.h"

namespace dlaunch::trainer {
namespace {

/// Ids on their way at a time: a few MiB.
constexpr std::uint64_t kChunk = 256 * 1024;
constexpr std::uint32_t kNarrowMax = 0xffff;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Id>
Result<void> write_ids(int file, const TokenView& tokens) {
  std::vector<std::int64_t> ids;
  std::vector<Id> packed;
  for (std::uint64_t first = 0; first < tokens.size(); first += ids.size()) {
    ids.resize(std::min(kChunk, tokens.size() - first));
    tokens.copy(first, ids);
    packed.clear();
    for (const auto id : ids) packed.push_back(static_cast<Id>(id));
    const auto written = write_all(file, as_text(std::as_bytes(std::span(packed))));
    if (!written) return written;
  }
  return {};
}

Result<void> write_file(const std::string& path, const TokenView& tokens, bool wide) {
  const auto doing = "writing " + path;
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) return failure_from_errno(errno, doing);
  const auto head = llmc_head(static_cast<std::uint32_t>(tokens.size()), wide);
  auto written = write_all(file.get(), as_text(head));
  if (written) {
    written = wide ? write_ids<std::uint32_t>(file.get(), tokens)
                   : write_ids<std::uint16_t>(file.get(), tokens);
  }
  if (!written) return failure(written.error().code, doing);
  if (::fsync(file.get()) != 0) return failure_from_errno(errno, doing);
  return {};
}

}  // namespace

Result<std::string> write_tokens(const DataSettings& from, const std::string& to) {
  const auto data = TrainingData::open(from, 1);
  if (!data && data.error().code == std::errc::invalid_argument) {
    return failure(std::error_code(), data.error().doing);
  }
  if (!data) return tl::unexpected(data.error());
  const auto& tokens = data->tokens();
  if (tokens.size() > kLlmcTokensMax) {
    return failure(std::error_code(), data->path() + " has " + std::to_string(tokens.size()) +
                                          " ids, and a file of llm.c's holds at most " +
                                          std::to_string(kLlmcTokensMax) + "; split it first");
  }
  const auto largest = tokens.largest(0, tokens.size());
  const auto part = to + ".tmp";
  auto written = write_file(part, tokens, largest > kNarrowMax);
  if (written && std::rename(part.c_str(), to.c_str()) != 0) {
    written = failure_from_errno(errno, "renaming " + part + " to " + to);
  }
  if (!written) {
    ::unlink(part.c_str());
    return tl::unexpected(written.error());
  }
  return to + ": " + std::to_string(tokens.size()) + " ids of " +
         (largest > kNarrowMax ? "4" : "2") + " bytes, the largest is " + std::to_string(largest) +
         ": [trainer.model] vocabulary must be " + std::to_string(std::uint64_t{largest} + 1) +
         " or more";
}

}  // namespace dlaunch::trainer
