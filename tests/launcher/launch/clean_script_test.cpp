#include "launcher/launch/clean_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::launcher::launch {
namespace {

using testing::HasSubstr;

TEST(CleanScript, NamesEachTargetInWordsThatAShellTakesAsTheyAre) {
  const auto text =
      to_text({"abc", {{"job-1", "gpu 01", "/local/it's"}, {"job-2", "b", ""}}, true});
  EXPECT_THAT(text, HasSubstr("dlaunch_clean 'job-1' 'gpu 01' '/local/it'\\''s'\n"));
  EXPECT_THAT(text, HasSubstr("dlaunch_clean 'job-2' 'b' /var/tmp /tmp \"$HOME/.cache\"\n"));
  EXPECT_THAT(text, HasSubstr("dlaunch_look_only=1\n"));
}

TEST(Leftovers, AreReadBehindWhateverTheLoginSaysFirst) {
  const auto found = parse_leftovers(
      "Welcome\nprocess\t1\tx\ty\n\ndlaunch-start 1 abc\n"
      "process\t42\tjob-1\tpython3 train.py \nprocess\t43\tjob-1\tsleep\nstays\t43\n"
      "directory\t/var/tmp/dlaunch-0/job-1/a\t12\nkept\t/var/tmp/dlaunch-0/job-1/"
      "a\nstrange\ndone\n",
      "abc");
  ASSERT_EQ(found.processes.size(), 2U);
  EXPECT_EQ(found.processes[0].pid, 42U);
  EXPECT_FALSE(found.processes[0].stays);
  EXPECT_TRUE(found.processes[1].stays);
  ASSERT_EQ(found.directories.size(), 1U);
  EXPECT_EQ(found.directories[0].kibibytes, 12U);
  EXPECT_TRUE(found.directories[0].stays);
  EXPECT_TRUE(found.complete);
  EXPECT_FALSE(parse_leftovers("no such line", "abc").complete);
}

TEST(Leftovers, AreToldInOneSentence) {
  Leftovers found;
  EXPECT_EQ(say_leftovers(found, false), "nothing is left");
  found.processes.push_back({42, "job-1", "python3 train.py", false});
  found.directories.push_back({"/tmp/dlaunch-0/job-1/a", 12, false});
  EXPECT_EQ(say_leftovers(found, false),
            "ended 1 process: 42 python3 train.py; removed /tmp/dlaunch-0/job-1/a (12 KiB)");
  EXPECT_EQ(say_leftovers(found, true),
            "would end 1 process: 42 python3 train.py; would remove /tmp/dlaunch-0/job-1/a (12 "
            "KiB)");
}

}  // namespace
}  // namespace dlaunch::launcher::launch
