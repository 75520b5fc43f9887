#include "supervisor/host/io/checkpoint_hands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/io/files.h"
#include "protocol/json_text.h"
#include "supervisor/host/io/checkpoint_lock.h"

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kManifestBytesMax = 64 * 1024 * 1024;
constexpr std::size_t kNoteBytesMax = 4096;
constexpr const char* kMark = ".dlaunch-mark-";
constexpr const char* kNote = ".written";  // behind the name of a shard

/// "step-800" → 800; nothing for "step-800.g3.partial", "step-" or "step-08x".
std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  name.remove_prefix(5);
  std::uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool whole = error == std::errc{} && end == name.data() + name.size();
  return whole ? std::optional(step) : std::nullopt;
}

/// The generation of "step-800.g3.partial".
std::optional<std::uint64_t> generation_of_partial(std::string_view name) {
  constexpr std::string_view kEnd = ".partial";
  const auto mark = name.find(".g");
  if (!name.starts_with("step-") || !name.ends_with(kEnd) || mark == std::string_view::npos) {
    return std::nullopt;
  }
  const auto digits = name.substr(mark + 2, name.size() - kEnd.size() - mark - 2);
  std::uint64_t generation = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), generation);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole ? std::optional(generation) : std::nullopt;
}

std::string partial_name(std::uint64_t step, Generation generation) {
  return "step-" + std::to_string(step) + ".g" + std::to_string(generation.value) + ".partial";
}

std::string advice(std::error_code code) {
  if (code == std::errc::no_space_on_device) return "; free some space there";
  if (code == std::errc::read_only_file_system) return "; it is mounted read-only";
  if (code == std::errc::permission_denied) return "; this user may not write there";
  return "";
}

std::string say(const Error& error) { return error.text() + advice(error.code); }

Result<json> read_manifest(const std::string& directory) {
  const auto text = read_file(directory + "/manifest.json", kManifestBytesMax);
  if (!text) return tl::unexpected(text.error());
  auto manifest = protocol::read_json(*text);
  if (!manifest.is_object() || !manifest.value("world_size", json(0U)).is_number_unsigned()) {
    return failure(std::errc::bad_message, "reading " + directory + "/manifest.json");
  }
  return manifest;
}

/// Of a manifest, and no trouble of the storage.
bool is_damage(const Error& error) {
  return error.code == std::errc::bad_message || error.code == std::errc::no_such_file_or_directory;
}

json files_of(const protocol::Commit& order) {
  json files = json::array();
  for (const auto& file : order.files()) {
    files.push_back({{"name", file.name()}, {"bytes", file.bytes()}, {"hash", file.hash()}});
  }
  return files;
}

void remove_aside(const fs::path& path) {
  std::error_code code;
  const auto trash = path.parent_path() /
                     (".trash-" + path.filename().string() + "-" + std::to_string(::getpid()));
  fs::rename(path, trash, code);
  if (!code) fs::remove_all(trash, code);
}

void delete_old(const std::string& directory, Generation generation,
                const protocol::Commit& order) {
  for (const auto step : order.delete_steps()) {
    remove_aside(directory + "/step-" + std::to_string(step));
  }
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const auto of = generation_of_partial(entry.path().filename().string());
    if (of && *of < generation.value) remove_aside(entry.path());
  }
}

Result<void> complete(const std::string& partial, const protocol::Commit& order) {
  for (const auto& file : order.files()) {
    std::error_code code;
    const auto bytes = fs::file_size(partial + "/" + file.name(), code);
    if (code) return failure(code, "looking at " + partial + "/" + file.name());
    if (bytes != file.bytes()) {
      return failure(std::errc::io_error, partial + "/" + file.name() + " has " +
                                              std::to_string(bytes) + " bytes where " +
                                              std::to_string(file.bytes()) + " were written");
    }
  }
  auto manifest = read_manifest(partial);
  if (!manifest) return tl::unexpected(manifest.error());
  (*manifest)["files"] = files_of(order);
  return replace_file(partial + "/manifest.json", manifest->dump(1) + "\n");
}

/// The same checkpoint may have been committed already: by this order before a reconnect, or by an
/// older generation that reached the same step.
std::string compare_existing(const std::string& target, const protocol::Commit& order) {
  const auto manifest = read_manifest(target);
  if (!manifest) return say(manifest.error());
  if (manifest->value("files", json::array()) == files_of(order)) return "";
  return target + " exists already and is another one; it is kept, move it away if it is wrong";
}

/// Kept for a person to look at; the newest damaged one of a step is enough.
Result<void> set_aside(const std::string& target) {
  const auto aside = target + ".damaged";
  std::error_code code;
  if (fs::exists(aside, code)) remove_aside(aside);
  if (::rename(target.c_str(), aside.c_str()) != 0) {
    return failure_from_errno(errno, "setting the damaged " + target + " aside");
  }
  return {};
}

/// The order that a controller would have given, had it heard of the shards; nullopt: some of them
/// are missing or not whole.
std::optional<protocol::Commit> order_from_notes(const std::string& partial, std::uint64_t step) {
  const auto manifest = read_manifest(partial);
  if (!manifest) return std::nullopt;
  const auto shards = manifest->value("world_size", 0U);
  protocol::Commit order;
  order.set_step(step);
  for (std::uint32_t rank = 0; rank < shards; ++rank) {
    const auto name =
        "shard-" + std::to_string(rank) + "-of-" + std::to_string(shards) + ".safetensors";
    const auto text = read_file(partial + "/" + name + kNote, kNoteBytesMax);
    const auto note = text ? protocol::read_json(*text) : json();
    const bool whole = note.is_object() && note.value("bytes", json()).is_number_unsigned() &&
                       note.value("hash", json()).is_string();
    if (!whole) return std::nullopt;
    auto& file = *order.add_files();
    file.set_name(name);
    file.set_bytes(note["bytes"].get<std::uint64_t>());
    file.set_hash(note["hash"].get<std::string>());
  }
  return shards == 0 ? std::nullopt : std::optional(order);
}

bool is_whole(const std::string& partial, const protocol::Commit& order) {
  return std::all_of(order.files().begin(), order.files().end(), [&](const auto& file) {
    std::error_code code;
    return fs::file_size(partial + "/" + file.name(), code) == file.bytes() && !code;
  });
}

/// What workers wrote at the end of their lease, when there was nobody to commit it. Those of
/// before have ended, or write elsewhere: the lock is ours. Returns why a whole one could not be
/// committed; it is still there then.
std::string commit_noted(const std::string& directory) {
  struct Left {
    std::uint64_t step = 0, generation = 0;
  };
  std::vector<Left> left;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    const auto name = entry.path().filename().string();
    const auto generation = generation_of_partial(name);
    const auto step = step_of(std::string_view(name).substr(0, name.find('.')));
    if (generation && step) left.push_back({*step, *generation});
  }
  for (const auto& [step, number] : left) {
    const Generation generation{number};
    const auto partial = directory + "/" + partial_name(step, generation);
    auto order = order_from_notes(partial, step);
    if (!order || !is_whole(partial, *order)) continue;
    const auto target = directory + "/step-" + std::to_string(step);
    if (fs::exists(target, code)) {
      const auto manifest = read_manifest(target);
      if (manifest || !is_damage(manifest.error())) continue;
      order->set_replaces_damaged(true);
    }
    if (auto trouble = commit_checkpoint(directory, generation, *order); !trouble.empty()) {
      return trouble;
    }
  }
  return "";
}

}  // namespace

Result<void> note_written(const std::string& directory, Generation generation,
                          const protocol::Written& written) {
  const json note = {{"bytes", written.bytes()}, {"hash", written.hash()}};
  return replace_file(
      directory + "/" + partial_name(written.step(), generation) + "/" + written.file() + kNote,
      note.dump());
}

std::string commit_checkpoint(const std::string& directory, Generation generation,
                              const protocol::Commit& order) {
  const auto target = directory + "/step-" + std::to_string(order.step());
  const auto partial = directory + "/" + partial_name(order.step(), generation);
  std::error_code code;
  if (fs::exists(target, code)) {
    // Without the partial one the order has been carried out already, before a reconnect.
    if (!order.replaces_damaged() || !fs::exists(partial, code)) {
      auto difference = compare_existing(target, order);
      if (difference.empty()) delete_old(directory, generation, order);
      return difference;
    }
    if (const auto moved = set_aside(target); !moved) return say(moved.error());
  }
  if (const auto done = complete(partial, order); !done) return say(done.error());
  if (const auto synced = sync_directory(partial); !synced) return say(synced.error());
  if (::rename(partial.c_str(), target.c_str()) != 0) {
    const Error error{std::error_code(errno, std::generic_category()), "renaming " + partial};
    return say(error);
  }
  if (const auto synced = sync_directory(directory); !synced) return say(synced.error());
  // Notes are for a checkpoint that nobody has committed.
  for (const auto& file : order.files()) fs::remove(target + "/" + file.name() + kNote, code);
  delete_old(directory, generation, order);
  return "";
}

protocol::CheckpointsFound inspect_checkpoints(const std::string& directory, const std::string& job,
                                               nanoseconds stale_after) {
  protocol::CheckpointsFound found;
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) {
    found.set_error(say(Error{code, "making " + directory}));
    return found;
  }
  const auto holder = take_lock(directory, job, stale_after);
  if (!holder) {
    found.set_error(say(holder.error()));
    return found;
  }
  if (*holder) {
    found.set_locked_by((*holder)->empty() ? "that is about to begin" : **holder);
    return found;
  }
  if (auto trouble = commit_noted(directory); !trouble.empty()) {
    found.set_error(std::move(trouble));
    return found;
  }
  std::vector<std::uint64_t> steps;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    if (const auto step = step_of(entry.path().filename().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  for (const auto step : steps) {
    const auto manifest = read_manifest(directory + "/step-" + std::to_string(step));
    if (!manifest) {
      const auto& error = manifest.error();
      if (!is_damage(error)) {
        found.set_error(say(error));
        return found;
      }
      auto* damaged = found.add_damaged();
      damaged->set_step(step);
      damaged->set_reason(error.code == std::errc::bad_message ? "its manifest.json is no manifest"
                                                               : "its manifest.json is missing");
      continue;
    }
    auto* fact = found.add_checkpoints();
    fact->set_step(step);
    fact->set_world_size(manifest->value("world_size", 0U));
    fact->set_config(manifest->value("config", json::object()).dump());
    fact->set_data(manifest->value("data", json::object()).dump());
  }
  return found;
}

void remove_marks(const std::string& directory) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code)) {
    if (!entry.path().filename().string().starts_with(kMark)) continue;
    std::error_code ignored;  // what cannot be removed is in nobody's way
    fs::remove(entry.path(), ignored);
  }
}

std::string leave_mark(const std::string& directory, const std::string& mark) {
  remove_marks(directory);
  const auto written = replace_file(directory + "/" + kMark + mark, "");
  return written ? "" : say(written.error());
}

std::string look_for_mark(const std::string& directory, const std::string& mark) {
  struct stat status {};
  const auto path = directory + "/" + kMark + mark;
  if (::stat(path.c_str(), &status) == 0) return "";
  return say(Error{std::error_code(errno, std::generic_category()), "looking for " + path});
}

}  // namespace dlaunch::supervisor::host
