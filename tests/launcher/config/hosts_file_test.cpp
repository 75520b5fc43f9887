#include "launcher/config/hosts_file.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

HostsFile hosts(const std::string& text) {
  const auto parsed = parse_hosts(text, "hosts.toml");
  EXPECT_EQ(problems_of(parsed), "") << text;
  const auto* file = std::get_if<HostsFile>(&parsed);
  return file == nullptr ? throw std::runtime_error("problems in " + text) : *file;
}

std::string problems(const std::string& text) {
  return problems_of(parse_hosts(text, "hosts.toml"));
}

TEST(HostsFile, ReadsEveryKeyOfTheManual) {
  const auto file = hosts(R"(
[defaults]
user = "ann"
workers = 8
[[host]]
name = "gpu[01-04]"
address = "10.0.0.[11-14]"
data_address = "10.1.0.[11-14]"
[[host]]
name = "gpu05"
spare = true
port = 2222
identity = "~/.ssh/cluster"
jump = "bastion"
scratch = "/local"
workers = "auto"
data_interface = "ib0"
trainer = "/opt/dlaunch/dlaunch-trainer"
expect = { gpus = 8 }
[[host]]
name = "here[1-2]"
transport = "local"
[network]
controller_address = "10.0.0.1"
ports = "30000-30999"
control = "dial"
host_keys = "accept-new"
ssh = "libssh"
connect_timeout = "3 s"
)");
  ASSERT_EQ(file.hosts.size(), 7U);
  EXPECT_EQ(file.hosts[1].name, "gpu02");
  EXPECT_EQ(file.hosts[1].address, "10.0.0.12");
  EXPECT_EQ(file.hosts[1].data_address, "10.1.0.12");
  EXPECT_EQ(file.hosts[1].user, "ann");
  EXPECT_EQ(file.hosts[1].workers, 8U);
  EXPECT_FALSE(file.hosts[1].spare);
  const auto& spare = file.hosts[4];
  EXPECT_TRUE(spare.spare);
  EXPECT_EQ(spare.address, "gpu05");
  EXPECT_EQ(spare.port, 2222U);
  EXPECT_EQ(spare.identity, "~/.ssh/cluster");
  EXPECT_EQ(spare.jump, "bastion");
  EXPECT_EQ(spare.scratch, "/local");
  EXPECT_EQ(spare.workers, std::nullopt);
  EXPECT_EQ(spare.data_interface, "ib0");
  EXPECT_EQ(spare.trainer, "/opt/dlaunch/dlaunch-trainer");
  EXPECT_EQ(spare.expect, (Expectation{8}));
  EXPECT_EQ(file.hosts[6].name, "here2");
  EXPECT_EQ(file.hosts[6].transport, Transport::local);
  EXPECT_EQ(file.hosts[6].user, "") << "a local host is not dialled";
  EXPECT_EQ(file.network,
            (NetworkSpec{"10.0.0.1", 30000, 30999, "dial", HostKeys::accept_new, "libssh", 3s}));
}

TEST(HostsFile, HasTheDocumentedDefaults) {
  const auto file = hosts("[[host]]\nname = \"gpu01\"\n");
  HostSpec expected;
  expected.name = expected.address = "gpu01";
  ASSERT_EQ(file.hosts.size(), 1U);
  EXPECT_EQ(file.hosts[0], expected);
  EXPECT_EQ(file.network, (NetworkSpec{"", 29600, 29899, "auto", HostKeys::strict, "auto", 10s}));
}

TEST(HostsFile, OneAddressMayServeSeveralHosts) {
  const auto file = hosts("[[host]]\nname = \"a[1-2]\"\naddress = \"10.0.0.1\"\n");
  ASSERT_EQ(file.hosts.size(), 2U);
  EXPECT_EQ(file.hosts[0].address, "10.0.0.1");
  EXPECT_EQ(file.hosts[1].address, "10.0.0.1");
}

TEST(HostsFile, AHostOverridesASharedExpectation) {
  const auto file = hosts(
      "[defaults]\nexpect = { gpus = 8 }\n[[host]]\nname = \"a\"\n"
      "[[host]]\nname = \"b\"\nexpect = { gpus = 4 }\n");
  EXPECT_EQ(file.hosts.at(0).expect.gpus, 8U);
  EXPECT_EQ(file.hosts.at(1).expect.gpus, 4U);
}

TEST(HostsFile, NamesAllProblemsAtOnceWithTheirPlaces) {
  EXPECT_EQ(problems(R"([defaults]
user = "-oProxyCommand=x"
[[host]]
name = "gpu[01-02]"
adress = "10.0.0.1"
port = 70000
[[host]]
name = "gpu02"
spare = "yes"
[network]
host_keys = "off"
)"),
            R"(hosts.toml:2:8: `user` is "-oProxyCommand=x"; expected a user's name
hosts.toml:5:1: unknown key `adress` in [host]; did you mean `address`?
hosts.toml:6:8: `port` in [host] is 70000; expected a whole number from 1 to 65535
hosts.toml:8:8: the host gpu02 is named twice; first named in line 4
hosts.toml:9:9: `spare` in [host] is a string; expected true or false, without quotes
hosts.toml:11:13: `host_keys` in [network] is "off"; expected "strict" or "accept-new"
)");
}

TEST(HostsFile, RefusesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "there are no hosts"},
      {"[network]\n", "there are no hosts"},
      {"[[host]]\n", "without `name`"},
      {"[[host]]\nname = 7\n", "hosts.toml:2:8: `name` in [host] is a whole number"},
      {"[[host]]\nname = \"\"\n", "is an empty name"},
      {"[[host]]\nname = \"gpu[04-01]\"\n", "hosts.toml:2:8: `name`: `gpu[04-01]` has an empty"},
      {"[[host]]\nname = \"gpu[1-99999]\"\n", "more than 65536"},
      {"[[host]]\nname = \"a[1-40000]\"\n[[host]]\nname = \"b[1-40000]\"\n",
       "hosts.toml:4:8: the hosts come to more than 65536"},
      {"[[host]]\nname = \"a b\"\n", "expected a host's name"},
      {"[[host]]\nname = \"a[1-3]\"\naddress = \"10.0.0.[1-2]\"\n",
       "`address` names 2 hosts, `name` names 3"},
      {"[[host]]\nname = \"a\"\naddress = \"10.0.0.[1-2]\"\n", "`address` names 2 hosts"},
      {"[[host]]\nname = \"a\"\naddress = \"10.0.0.300\"\n", "hosts.toml:3:11: `address` is"},
      {"[[host]]\nname = \"a\"\ndata_address = \"ib-a\"\n", "expected a numeric address"},
      {"[[host]]\nname = \"a\"\ndata_address = \"10.0.0.1\"\ndata_interface = \"ib0\"\n",
       "both given"},
      {"[[host]]\nname = \"a\"\nworkers = 0\n", "from 1 to 1024"},
      {"[[host]]\nname = \"a\"\nworkers = \"many\"\n", "expected \"auto\" or a whole number"},
      {"[[host]]\nname = \"a\"\nscratch = \"tmp\"\n", "expected an absolute path"},
      {"[[host]]\nname = \"a\"\nexpect = { gpu = 8 }\n", "did you mean `gpus`?"},
      {"[[host]]\nname = \"a\"\nexpect = { ib_ports = 8 }\n", "is not available yet"},
      {"[[host]]\nname = \"a\"\nrack = \"r1\"\n", "is not available yet"},
      {"[[host]]\nname = \"a\"\nexpect = 8\n", "expected a table"},
      {"[[host]]\nname = \"a\"\ntransport = \"local\"\nport = 22\n", "`port` has no effect"},
      {"[[host]]\nname = \"a\"\ntransport = \"telnet\"\n", "expected \"ssh\" or \"local\""},
      {"[[host]]\nname = \"a\"\nspare = true\n", "all hosts are spares"},
      {"[host]\nname = \"a\"\n", "expected [[host]], with two brackets"},
      {"host = [1, 2]\n", "expected [[host]]"},
      {"[defaults]\nname = \"a\"\n[[host]]\nname = \"b\"\n", "hosts cannot share it"},
      {"[[hosts]]\nname = \"a\"\n", "unknown section [hosts]; did you mean `host`?"},
      {"[[host]]\nname = \"a\"\n[network]\nports = \"29600\"\n", "expected a range"},
      {"[[host]]\nname = \"a\"\n[network]\nports = \"80-90\"\n", "from 1024 on"},
      {"[[host]]\nname = \"a\"\n[network]\nports = \"2000-1000\"\n", "expected a range"},
      {"[[host]]\nname = \"a\"\n[network]\nports = \"29600-99999\"\n", "expected a range"},
      {"[[host]]\nname = \"a\"\n[network]\ncontroller_address = \"login\"\n", "numeric address"},
      {"[[host]]\nname = \"a\"\n[network]\nconnect_timeout = 10\n",
       "expected a duration with a unit"},
      {"[[host]]\nname = \"a\"\nname = \"b\"\n", "hosts.toml:3:"},
      {"[[host]\nname = \"a\"\n", "not TOML"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(problems(text), HasSubstr(why)) << text;
    EXPECT_THAT(problems(text), StartsWith("hosts.toml:")) << text;
  }
}

TEST(HostsFile, AnEarlierTableNeverHidesALaterProblem) {
  EXPECT_THAT(problems("[[host]]\nname = \"[\"\nport = 0\n[[host]]\nname = \"a\"\nrak = \"r\"\n"),
              HasSubstr("did you mean `rack`?"));
}

TEST(HostsFile, TellsTomlFromListsOfHosts) {
  const auto by_content = parse_hosts("# mine\n[[host]]\nname = \"a\"\n", "my-hosts");
  EXPECT_EQ(problems_of(by_content), "");
  const auto lines = parse_hosts("a slots=2\n", "my-hosts");
  EXPECT_EQ(problems_of(lines), "");
  EXPECT_THAT(problems_of(parse_hosts("a slots=2\n", "hosts.toml")), HasSubstr("not TOML"));
}

TEST(HostsFile, ThisMachineIsOneLocalHost) {
  const auto file = this_machine();
  ASSERT_EQ(file.hosts.size(), 1U);
  EXPECT_EQ(file.hosts[0].name, "localhost");
  EXPECT_EQ(file.hosts[0].transport, Transport::local);
  EXPECT_EQ(file.hosts[0].workers, std::nullopt);
}

}  // namespace
}  // namespace dlaunch::launcher::config
