#include "base/io/known_hashes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/io/clock.h"

namespace dlaunch {
namespace {

class Hashes : public testing::Test {
 protected:
  Hashes() {
    std::string name = "/tmp/dlaunch-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    data_ = directory_ + "/data with blanks.txt";
    store_ = directory_ + "/hashes";
    write("in the beginning");
  }
  ~Hashes() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  void write(const std::string& text) const { std::ofstream(data_) << text; }
  [[nodiscard]] struct stat look() const {
    struct stat status {};
    ::stat(data_.c_str(), &status);
    return status;
  }
  void keep(double now) const {
    KnownHashes known(store_);
    known.add(data_, look(), "c0ffee", now);
    known.save();
  }
  [[nodiscard]] std::string kept() const {
    return KnownHashes(store_).find(data_, look()).value_or("nothing");
  }

  std::string directory_, data_, store_;
};

TEST_F(Hashes, AreKnownAgainWhileTheFileIsTheSame) {
  EXPECT_EQ(kept(), "nothing");
  keep(unix_now() + 10);
  EXPECT_EQ(kept(), "c0ffee");
  write("in the ending...");  // of the same size
  EXPECT_EQ(kept(), "nothing");
}

TEST_F(Hashes, OfAFileThatHasJustChangedAreNotKept) {
  keep(unix_now());
  EXPECT_EQ(kept(), "nothing");
}

TEST_F(Hashes, AreNothingWhenTheirFileIsNotUnderstood) {
  std::ofstream(store_) << "x\n\n1 2\n" << std::string(1000, 'y');
  EXPECT_EQ(kept(), "nothing");
  keep(unix_now() + 10);
  EXPECT_EQ(kept(), "c0ffee");
}

}  // namespace
}  // namespace dlaunch
