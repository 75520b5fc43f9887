// Replays the corpora with whatever compiler and sanitizers the tests are built with.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/fuzz/target.h"

namespace dlaunch::fuzz {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Corpus, EachTargetTakesItsOwnAndNoOtherIsThere) {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(FUZZ_CORPUS)) {
    folders.insert(entry.path().filename().string());
  }
  for (const auto& target : targets()) {
    EXPECT_EQ(folders.erase(target.name), 1U) << target.name << " has no corpus";
    int inputs = 0;
    for (const auto& entry : fs::directory_iterator(fs::path(FUZZ_CORPUS) / target.name)) {
      SCOPED_TRACE(entry.path().string());
      target.run(read(entry.path()));
      ++inputs;
    }
    EXPECT_GE(inputs, 3) << target.name;
  }
  EXPECT_TRUE(folders.empty()) << *folders.begin() << " belongs to no target";
}

TEST(Corpus, EachInputIsAlsoTakenCutAtEveryByte) {
  constexpr std::size_t kLongMax = 1024;
  for (const auto& target : targets()) {
    for (const auto& entry : fs::directory_iterator(fs::path(FUZZ_CORPUS) / target.name)) {
      SCOPED_TRACE(entry.path().string());
      const auto whole = read(entry.path());
      const auto step = std::max<std::size_t>(1, whole.size() / kLongMax);
      for (std::size_t cut = 0; cut < whole.size(); cut += step) target.run(whole.substr(0, cut));
    }
  }
}

}  // namespace
}  // namespace dlaunch::fuzz
