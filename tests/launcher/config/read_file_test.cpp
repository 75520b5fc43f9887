#include "launcher/config/io/read_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/base/io/temporary_directory.h"

namespace dlaunch::launcher::config {
namespace {

using testing::HasSubstr;

class ReadFile : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }

  TemporaryDirectory folder_;
};

TEST_F(ReadFile, GivesAllBytes) {
  const std::string text("a\0b\n", 4);
  std::ofstream(path("a")) << text;
  EXPECT_EQ(*read_config_file(path("a"), 4), text);
  EXPECT_EQ(*read_config_file(path("a"), 100), text);
}

TEST_F(ReadFile, SaysWhyNot) {
  std::ofstream(path("large")) << "12345";
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto why = [&](const std::string& name) {
    return read_config_file(path(name), 4).error().text();
  };
  EXPECT_THAT(why("missing"), HasSubstr("missing: No such file"));
  EXPECT_THAT(why("."), HasSubstr("no regular file"));
  EXPECT_THAT(why("pipe"), HasSubstr("no regular file"));
  EXPECT_THAT(why("large"), HasSubstr("more than 4 bytes"));
}

}  // namespace
}  // namespace dlaunch::launcher::config
