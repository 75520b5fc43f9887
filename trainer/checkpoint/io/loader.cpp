#include "trainer/checkpoint/io/loader.h"

#include <algorithm>
#include <string>

#include "base/io/files.h"
#include "trainer/checkpoint/io/shard_reader.h"
#include "trainer/checkpoint/layout.h"
#include "trainer/checkpoint/restore_plan.h"

namespace dlaunch::checkpoint {
namespace {

tl::unexpected<Error> damaged(const std::filesystem::path& path, const std::string& what) {
  return tl::unexpected(Error{{}, path.string() + " is damaged: " + what});
}

Result<std::string> read_text(const std::filesystem::path& path, std::size_t bytes_max) {
  auto text = read_file(path, bytes_max + 1);
  if (text && text->size() > bytes_max) {
    return damaged(path, "it is larger than " + std::to_string(bytes_max) + " bytes");
  }
  return text;
}

const ManifestFile* find_file(const Manifest& manifest, const std::string& name) {
  const auto found = std::ranges::find(manifest.files, name, &ManifestFile::name);
  return found == manifest.files.end() ? nullptr : &*found;
}

Result<void> load_file(const std::filesystem::path& path, const FilePlan& plan,
                       const ManifestFile* committed, LoadReport& report) {
  auto reader = ShardReader::open(path, plan);
  if (!reader) return tl::unexpected(reader.error());
  if (committed != nullptr && committed->bytes != reader->file_bytes()) {
    return damaged(path, "it has " + std::to_string(reader->file_bytes()) +
                             " bytes, the manifest says " + std::to_string(committed->bytes));
  }
  std::string hash;
  if (plan.whole) {
    auto read = reader->read_whole(plan);
    if (!read) return tl::unexpected(read.error());
    hash = std::move(*read);
  } else {
    if (auto read = reader->read_parts(plan); !read) return read;
    // A part has no hash of its own: the whole file is read once more.
    auto hashed = hash_file(path.string());
    if (!hashed) return tl::unexpected(hashed.error());
    hash = std::move(hashed->hash);
  }
  report.bytes_read += reader->bytes_read();
  if (committed == nullptr) return {};
  if (committed->hash != hash) {
    return damaged(path, "its bytes are not those that were written (hash " + hash +
                             ", the manifest says " + committed->hash + ")");
  }
  ++report.files_verified;
  return {};
}

}  // namespace

bool is_damage(const Error& error) { return !error.code; }

Result<Manifest> read_manifest(const std::filesystem::path& step_directory) {
  const auto path = step_directory / kManifestName;
  const auto text = read_text(path, kManifestBytesMax);
  if (!text) return tl::unexpected(text.error());
  auto manifest = parse_manifest(*text);
  if (!manifest) return damaged(path, manifest.error().doing);
  return manifest;
}

Result<LoadReport> load_checkpoint(const std::filesystem::path& step_directory,
                                   std::span<const TensorDestination> wanted) {
  auto manifest = read_manifest(step_directory);
  if (!manifest) return tl::unexpected(manifest.error());
  LoadReport report;
  report.manifest = std::move(*manifest);
  const auto files = plan_restore(report.manifest, wanted);
  if (!files) {
    return damaged(step_directory / kManifestName, files.error().doing);
  }
  for (const auto& [name, plan] : *files) {
    auto loaded = load_file(step_directory / name, plan, find_file(report.manifest, name), report);
    if (!loaded) return tl::unexpected(loaded.error());
  }
  return report;
}

}  // namespace dlaunch::checkpoint
