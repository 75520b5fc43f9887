#include "trainer/checkpoint/io/shard_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/content_hash.h"

namespace dlaunch::checkpoint {
namespace {

/// Hashed while it is still in the cache.
constexpr std::size_t kReadBytes = 1024 * 1024;

tl::unexpected<Error> damaged(const std::string& name, const std::string& what) {
  return tl::unexpected(Error{{}, name + " is damaged: " + what});
}

}  // namespace

Result<ShardReader> ShardReader::open(const std::filesystem::path& path, const FilePlan& plan) {
  auto reader = open_any(path);
  if (!reader) return reader;
  if (auto same = reader->compare_head(plan); !same) return tl::unexpected(same.error());
  return reader;
}

Result<ShardReader> ShardReader::open_any(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) return damaged(path.string(), "it is missing");
  if (!file.is_open()) return failure_from_errno(errno, "opening " + path.string());
  ShardReader reader(std::move(file), path.string());
  if (auto head = reader.read_head(); !head) return tl::unexpected(head.error());
  return reader;
}

Result<void> ShardReader::read_head() {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return failure_from_errno(errno, "looking at " + name_);
  if (!S_ISREG(status.st_mode)) return damaged(name_, "it is not a file");
  file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (file_bytes_ < kLengthBytes) return damaged(name_, "it is cut off in its first bytes");

  head_.resize(kLengthBytes);
  auto bytes = std::as_writable_bytes(std::span(head_));
  if (auto read = read_at(0, bytes); !read) return read;
  const auto length = json_bytes(bytes.first<kLengthBytes>(), file_bytes_);
  if (!length) return damaged(name_, length.error().doing);
  head_.resize(kLengthBytes + *length);
  bytes = std::as_writable_bytes(std::span(head_)).subspan(kLengthBytes);
  if (auto read = read_at(kLengthBytes, bytes); !read) return read;
  auto tensors =
      parse_header(std::string_view(head_).substr(kLengthBytes), file_bytes_ - head_.size());
  if (!tensors) return damaged(name_, tensors.error().doing);
  tensors_ = std::move(*tensors);
  return {};
}

Result<void> ShardReader::compare_head(const FilePlan& plan) const {
  for (const FileTensor& tensor : tensors_) {
    const auto expected = plan.parts.find(tensor.spec.name);
    if (expected == plan.parts.end() || expected->second != tensor.spec) {
      return damaged(name_, "\"" + tensor.spec.name + "\" differs from the manifest");
    }
  }
  // Names are unique on both sides, so equal counts mean equal sets.
  if (tensors_.size() != plan.parts.size()) {
    return damaged(name_, "it lacks tensors that the manifest lists");
  }
  return {};
}

Result<void> ShardReader::read_at(std::uint64_t at, std::span<std::byte> into) {
  while (!into.empty()) {
    const auto count = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "reading " + name_);
    if (count == 0) return damaged(name_, "it became shorter while it was read");
    into = into.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
    bytes_read_ += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<void> ShardReader::read_tensor(const FileTensor& tensor, std::uint64_t first_byte,
                                      std::span<std::byte> into) {
  DL_CHECK(first_byte + into.size() <= tensor.bytes, "the tensor has those bytes");
  return read_at(head_.size() + tensor.first_byte + first_byte, into);
}

Result<void> ShardReader::read_parts(const FilePlan& plan) {
  for (const FileTensor& tensor : tensors_) {
    const auto wanted = plan.reads.find(tensor.spec.name);
    if (wanted == plan.reads.end()) continue;
    const auto& [first_byte, into] = wanted->second;
    if (auto read = read_tensor(tensor, first_byte, into); !read) return read;
  }
  return {};
}

Result<std::string> ShardReader::read_whole(const FilePlan& plan) {
  ContentHash hash;
  hash.update(std::as_bytes(std::span(head_)));
  for (const FileTensor& tensor : tensors_) {
    const auto wanted = plan.reads.find(tensor.spec.name);
    if (wanted == plan.reads.end()) continue;  // a tensor without bytes
    auto into = wanted->second.into;
    std::uint64_t at = head_.size() + tensor.first_byte;
    while (!into.empty()) {
      const auto block = into.first(std::min(into.size(), kReadBytes));
      if (auto read = read_at(at, block); !read) return tl::unexpected(read.error());
      hash.update(block);
      at += block.size();
      into = into.subspan(block.size());
    }
  }
  return hash.hex();
}

}  // namespace dlaunch::checkpoint
