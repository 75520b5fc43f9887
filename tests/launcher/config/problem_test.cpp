#include "launcher/config/problem.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher::config {
namespace {

TEST(Problem, IsOneLineWithItsPlace) {
  EXPECT_EQ(to_text(Problem{"train.toml", 3, 1, "unknown key `stepps`", "did you mean `steps`?"}),
            "train.toml:3:1: unknown key `stepps`; did you mean `steps`?");
  EXPECT_EQ(to_text(Problem{"train.toml", 0, 0, "there is nothing to run", ""}),
            "train.toml: there is nothing to run");
}

TEST(Problem, AreSortedByPlace) {
  EXPECT_EQ(to_text({{"b.toml", 1, 1, "x", ""},
                     {"a.toml", 9, 2, "y", ""},
                     {"a.toml", 9, 1, "z", ""},
                     {"a.toml", 0, 0, "w", ""}}),
            "a.toml: w\na.toml:9:1: z\na.toml:9:2: y\nb.toml:1:1: x\n");
}

TEST(Problem, CannotMoveTheCursorOfItsReader) {
  EXPECT_EQ(to_text(Problem{"f", 0, 0, "a\x1b[2Jb\n", ""}), "f: a\\x1b[2Jb\\x0a");
}

TEST(Problem, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> known = {"steps", "seed", "learning_rate"};
  EXPECT_EQ(nearest("stepps", known), "steps");
  EXPECT_EQ(nearest("learningrate", known), "learning_rate");
  EXPECT_EQ(nearest("sead", known), "seed");
  EXPECT_EQ(nearest("banana", known), "");
}

}  // namespace
}  // namespace dlaunch::launcher::config
