#include "launcher/config/resolved.h"

#include <gmock/gmock.h>

#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

using testing::HasSubstr;

void expect_reads_back(const Resolved& resolved) {
  const auto text = write_resolved(resolved);
  const auto read = read_resolved(text, "job.toml");
  ASSERT_EQ(problems_of(read), "") << text;
  EXPECT_EQ(std::get<Resolved>(read), resolved) << text;
}

TEST(Resolved, DefaultsReadBackToTheSame) {
  const auto train = std::get<TrainFile>(parse_train_text(kTrainer));
  expect_reads_back({this_machine(), train});
  expect_reads_back({this_machine(), std::get<TrainFile>(parse_train_text(kProgram))});
}

TEST(Resolved, EveryKeyReadsBackToTheSame) {
  const auto hosts = parse_hosts(
      "[defaults]\nuser = \"ann\"\nworkers = 8\n"
      "[[host]]\nname = \"gpu[01-02]\"\naddress = \"10.0.0.[1-2]\"\ndata_address = "
      "\"10.1.0.[1-2]\"\n"
      "[[host]]\nname = \"s\"\nspare = true\nport = 22\nidentity = \"~/a b\"\njump = \"b\"\n"
      "scratch = \"/l\"\ntrainer = \"/t\"\nworkers = \"auto\"\n"
      "data_interface = \"ib0\"\nexpect = { gpus = 8 }\n"
      "[[host]]\nname = \"here\"\ntransport = \"local\"\n"
      "[network]\ncontroller_address = \"::1\"\nports = \"30000-30100\"\ncontrol = \"dial\"\n"
      "host_keys = \"accept-new\"\nconnect_timeout = \"1500 ms\"\n",
      "hosts.toml");
  ASSERT_EQ(problems_of(hosts), "");
  const auto train = parse_train_text(
      "[job]\nname = \"x\"\nhosts = \"2..4\"\nhosts_step = 2\n"
      "[trainer]\nlearning_rate = 0.1\nlogical_batches = 16\nclip = 1e-9\nseed = "
      "9223372036854775807\nschedule = \"cosine\"\nmin_learning_rate = 1e-5\ndecay_steps = 70\n"
      "validate_every = \"20 steps\"\n[trainer.model]\nvocabulary = 50257\n"
      "[trainer.data]\nvalidation = 0.005\ntokens = \"a \\\"b\\\" \\\\ \\u0007 ü.txt\"\n"
      "[checkpoint]\nevery = \"1234567 us\"\nkeep = 9\n"
      "[recovery]\nlease = \"61 s\"\non_lease_end = \"keep\"\nrestarts = { process = 0, window = "
      "\"90 s\" }\nquarantine = false\n"
      "[health]\nheartbeat = \"123456789 ns\"\nlost_after = \"2 s\"\nhang_floor = \"1.5 "
      "h\"\nlink_window = \"0.5 "
      "s\"\n");
  ASSERT_EQ(problems_of(train), "");
  expect_reads_back({std::get<HostsFile>(hosts), std::get<TrainFile>(train)});
}

TEST(Resolved, AProgramReadsBackToTheSame) {
  const auto train = parse_train_text(std::string(kProgram) +
                                      "environment = { \"a b.c\" = \"1\\n2\", B = \"\" }\n"
                                      "inherit = []\nwrap = [\"x\"]\nstep_pattern = 'a(\\d+)\"'\n"
                                      "checkpoint_glob = \"c/*\"\n[checkpoint]\ndirectory = \"c\"\n"
                                      "[recovery]\nstop_grace = \"0 s\"\n");
  ASSERT_EQ(problems_of(train), "");
  expect_reads_back({this_machine(), std::get<TrainFile>(train)});
}

TEST(Resolved, ADamagedFileIsAProblemWithItsPlace) {
  EXPECT_THAT(problems_of(read_resolved("[job]\nname = 1\n", "job.toml")),
              HasSubstr("job.toml:2:8: `name` in [job]"));
  EXPECT_THAT(problems_of(read_resolved("[[host]]\nname = 1\n", "job.toml")),
              HasSubstr("job.toml:2:8: `name` in [host]"));
  EXPECT_THAT(problems_of(read_resolved("", "job.toml")), HasSubstr("there are no hosts"));
}

}  // namespace
}  // namespace dlaunch::launcher::config
