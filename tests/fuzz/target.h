// What is fuzzed: every parser of bytes or text that comes from outside the process.
#pragma once

#include <span>
#include <string_view>

namespace dlaunch::fuzz {

/// `run` takes any bytes; a broken promise of the parser ends the process.
struct Target {
  const char* name = "";  ///< also of its folder in corpus/
  void (*run)(std::string_view bytes) = nullptr;
};

[[nodiscard]] std::span<const Target> targets();
/// Ends the process when there is none of this name.
[[nodiscard]] const Target& target_named(std::string_view name);

// What reads the wire, and lines of workers, planters and SSH.
void agent_frames(std::string_view bytes);
void controller_frames(std::string_view bytes);
void endpoints(std::string_view bytes);
void worker_lines(std::string_view bytes);
void agent_lines(std::string_view bytes);
void bootstrap_line(std::string_view bytes);
void remote_talk(std::string_view bytes);

// What agents say to each other.
void probes(std::string_view bytes);
void relay_requests(std::string_view bytes);

// What reads the user's files.
void hosts_toml(std::string_view bytes);
void host_lines(std::string_view bytes);
void host_range(std::string_view bytes);
void train_toml(std::string_view bytes);
void resolved_toml(std::string_view bytes);

// What reads the training data.
void token_files(std::string_view bytes);

// What reads a checkpoint.
void manifest(std::string_view bytes);
void safetensors_header(std::string_view bytes);

}  // namespace dlaunch::fuzz
