#include "launcher/config/together.h"

#include <gmock/gmock.h>

#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

std::string together(const std::string& hosts, const std::string& train) {
  const auto parsed_hosts = parse_hosts_toml(hosts, "hosts.toml");
  const auto parsed_train = parse_train_text(train);
  EXPECT_EQ(problems_of(parsed_hosts) + problems_of(parsed_train), "");
  return to_text(check_together(std::get<HostsFile>(parsed_hosts),
                                std::get<TrainFile>(parsed_train), "train.toml"));
}

constexpr const char* kFour =
    "[[host]]\nname = \"a[1-3]\"\nworkers = 2\n[[host]]\nname = \"s\"\n"
    "spare = true\nworkers = 2\n";

TEST(Together, FilesThatFitAreFine) {
  EXPECT_EQ(together(kFour, kTrainer), "");
  EXPECT_EQ(together(kFour, kProgram), "");
  EXPECT_EQ(together(kFour, std::string("[job]\nhosts = \"4..9\"\n") + kTrainer), "");
  EXPECT_EQ(together(kFour, std::string("[trainer]\nlogical_batches = 8\n") + kTrainer), "");
  EXPECT_EQ(together("[[host]]\nname = \"a[1-3]\"\n",
                     std::string("[trainer]\nlogical_batches = 4\n") + kTrainer),
            "");
}

TEST(Together, TooFewHostsAreAProblem) {
  EXPECT_EQ(
      together(kFour, std::string("[job]\nhosts = 5\n") + kTrainer),
      "train.toml:2:9: `hosts` in [job] wants at least 5 hosts, there are 4; expected more hosts "
      "in the hosts file, or a lower minimum\n");
}

TEST(Together, EveryRankMustHaveAMicroBatch) {
  EXPECT_EQ(
      together(kFour, std::string("[trainer]\nlogical_batches = 4\n") + kTrainer),
      "train.toml:2:19: `logical_batches` in [trainer] is 4, the job can have 6 ranks; expected at "
      "least 8, so that every rank has something to do\n");
  EXPECT_EQ(
      together(kFour, std::string("[job]\nhosts = 2\n[trainer]\nlogical_batches = 4\n") + kTrainer),
      "");
}

}  // namespace
}  // namespace dlaunch::launcher::config
