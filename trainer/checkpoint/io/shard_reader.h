// Reads one safetensors file: a shard, believing only what fits the manifest, or somebody else's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/restore_plan.h"
#include "trainer/checkpoint/safetensors.h"

namespace dlaunch::checkpoint {

class ShardReader {
 public:
  /// Opens the file and compares its head with `plan.parts`.
  [[nodiscard]] static Result<ShardReader> open(const std::filesystem::path& path,
                                                const FilePlan& plan);

  /// Of a file that no manifest describes.
  [[nodiscard]] static Result<ShardReader> open_any(const std::filesystem::path& path);

  /// In the order of their bytes.
  [[nodiscard]] const std::vector<FileTensor>& tensors() const { return tensors_; }
  /// `into` from this byte of the tensor on; it must be that long.
  [[nodiscard]] Result<void> read_tensor(const FileTensor& tensor, std::uint64_t first_byte,
                                         std::span<std::byte> into);
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  /// Only the ranges wanted.
  [[nodiscard]] Result<void> read_parts(const FilePlan& plan);
  /// Everything, in file order; gives the hash of the whole file.
  [[nodiscard]] Result<std::string> read_whole(const FilePlan& plan);
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  ShardReader(FileDescriptor file, std::string name) : file_(std::move(file)), name_(name) {}

  [[nodiscard]] Result<void> read_head();
  [[nodiscard]] Result<void> compare_head(const FilePlan& plan) const;
  [[nodiscard]] Result<void> read_at(std::uint64_t at, std::span<std::byte> into);

  FileDescriptor file_;
  std::string name_;
  std::uint64_t file_bytes_ = 0;
  std::string head_;  ///< length and JSON
  std::vector<FileTensor> tensors_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace dlaunch::checkpoint
