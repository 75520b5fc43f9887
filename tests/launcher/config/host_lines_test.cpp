// Host lists that are not TOML, and Slurm's environment.
#include <gmock/gmock.h>

#include "launcher/config/hosts_file.h"
#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

using testing::HasSubstr;

/// "name:workers user@… :port" of each host, for comparing.
std::string summary(const HostsOrProblems& parsed) {
  const auto* file = std::get_if<HostsFile>(&parsed);
  if (file == nullptr) return problems_of(parsed);
  std::string text;
  for (const auto& host : file->hosts) {
    text += (text.empty() ? "" : " ") + (host.user.empty() ? "" : host.user + "@") + host.name +
            (host.port == 0 ? "" : "/" + std::to_string(host.port)) +
            (host.workers ? ":" + std::to_string(*host.workers) : "");
    EXPECT_EQ(host.address, host.name);
    EXPECT_EQ(host.transport, Transport::ssh);
  }
  return text;
}

std::string lines(const std::string& text) { return summary(parse_hosts(text, "hosts")); }

TEST(HostLines, ReadsOpenMpi) {
  EXPECT_EQ(lines("# all of them\n"
                  "gpu01 slots=8 max_slots=16\n"
                  "ann@gpu02 slots=4 port=2222   // the old one\n"
                  "/* gpu03 slots=8\n   gpu04 */\n"
                  "\tgpu05 count=2 max-slots=2\n"),
            "gpu01:8 ann@gpu02/2222:4 gpu05:2");
}

TEST(HostLines, ReadsMpich) { EXPECT_EQ(lines("gpu01:4\ngpu02:2\n"), "gpu01:4 gpu02:2"); }

TEST(HostLines, ReadsDeepSpeed) {
  EXPECT_EQ(lines("worker-1 slots=4\nworker-2 slots=4\n"), "worker-1:4 worker-2:4");
}

TEST(HostLines, ReadsPlainListsAndLinesOfEachSlot) {
  EXPECT_EQ(lines("gpu01\ngpu02\n10.0.0.3\n"), "gpu01 gpu02 10.0.0.3");
  EXPECT_EQ(lines("gpu01\ngpu01\ngpu02\ngpu01\n"), "gpu01:3 gpu02");
}

TEST(HostLines, ReadsRangesAndAddresses) {
  EXPECT_EQ(lines("gpu[09-10] slots=8\nfe80::1\n"), "gpu09:8 gpu10:8 fe80::1");
}

TEST(HostLines, TakesLinesAsWindowsWritesThem) {
  EXPECT_EQ(lines("\xEF\xBB\xBFgpu01:4\r\ngpu02:2\r\n"), "gpu01:4 gpu02:2");
}

TEST(HostLines, NamesAllProblemsAtOnceWithTheirPlaces) {
  EXPECT_EQ(lines("gpu01 slots=0\n"
                  "^gpu02\n"
                  "gpu03 slot=4\n"
                  "gpu04:x\n"
                  "  gpu05 slots=2\n"
                  "gpu05 slots=2\n"
                  "-oProxyCommand=x\n"
                  "@gpu06\n"
                  "gpu[7-5]\n"),
            "hosts:1:7: `slots=0`; expected slots=8, at most 1024\n"
            "hosts:2:1: `^gpu02` is a relative or excluded host; expected names of hosts; dlaunch "
            "takes the list as it is\n"
            "hosts:3:7: unknown word `slot=4`; expected slots=, max_slots=, port= or user= behind "
            "a host\n"
            "hosts:4:1: `gpu04:x` has no number of slots behind the colon; expected gpu01:8\n"
            "hosts:6:1: the host gpu05 is named twice; expected one line for each host\n"
            "hosts:7:1: `-oProxyCommand=x` is no name of a host; expected one like gpu01\n"
            "hosts:8:1: `@gpu06` has no good user's name; expected ann@gpu01\n"
            "hosts:9:1: `gpu[7-5]` has an empty range: the end is below the beginning; expected a "
            "host's name\n");
}

TEST(HostLines, AnEmptyListIsNotThisMachine) {
  EXPECT_THAT(lines("# nothing\n\n"), HasSubstr("there are no hosts"));
}

TEST(HostLines, ReadsSlurmsEnvironment) {
  EXPECT_EQ(summary(hosts_of_slurm({{"SLURM_JOB_NODELIST", "node[01-03,20],gpu1"},
                                    {"SLURM_TASKS_PER_NODE", "8(x2),4,2(x2)"}})),
            "node01:8 node02:8 node03:4 node20:2 gpu1:2");
  EXPECT_EQ(summary(hosts_of_slurm({{"SLURM_JOB_NODELIST", "rack[0-1]_blade[0-1]"}})),
            "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1");
}

TEST(HostLines, OneSlurmTaskPerNodeLeavesTheWorkersToEachHost) {
  EXPECT_EQ(summary(hosts_of_slurm(
                {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}})),
            "n1 n2");
}

TEST(HostLines, SaysWhatIsWrongWithSlurmsEnvironment) {
  EXPECT_THAT(summary(hosts_of_slurm({})), HasSubstr("SLURM_JOB_NODELIST is not set"));
  EXPECT_THAT(summary(hosts_of_slurm({{"SLURM_JOB_NODELIST", "n[3-1]"}})),
              HasSubstr("SLURM_JOB_NODELIST: `n[3-1]` has an empty range"));
  for (const char* tasks : {"8", "8(x3)", "8(x)", "8(x2", "x", "", "8(x99999999)", "8,8,"}) {
    EXPECT_THAT(summary(hosts_of_slurm(
                    {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", tasks}})),
                HasSubstr("SLURM_TASKS_PER_NODE is"))
        << tasks;
  }
  EXPECT_THAT(summary(hosts_of_slurm({{"SLURM_JOB_NODELIST", "n1,n1"}})), HasSubstr("twice"));
}

}  // namespace
}  // namespace dlaunch::launcher::config
