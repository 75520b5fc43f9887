// Files as tests compare and damage them: no bound, nothing synced.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace dlaunch::checkpoint {

[[nodiscard]] inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace dlaunch::checkpoint
