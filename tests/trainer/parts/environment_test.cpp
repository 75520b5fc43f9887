// What a worker reads from its environment.
#include "trainer/io/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace dlaunch::trainer {
namespace {

class EnvironmentTest : public testing::Test {
 protected:
  void SetUp() override {
    ::clearenv();
    for (const auto& [name, value] : {std::pair{"DLAUNCH_SOCKET", "/run/worker.sock"},
                                      {"DLAUNCH_JOB", "job-1"},
                                      {"DLAUNCH_GENERATION", "7"},
                                      {"DLAUNCH_DATA_ADDRESS", "10.1.0.3"},
                                      {"RANK", "5"},
                                      {"LOCAL_RANK", "1"},
                                      {"WORLD_SIZE", "8"},
                                      {"LOCAL_WORLD_SIZE", "4"}}) {
      ::setenv(name, value, 1);
    }
  }
};

TEST_F(EnvironmentTest, IsReadInFull) {
  const auto environment = read_environment().value();
  EXPECT_EQ(environment.socket, "/run/worker.sock");
  EXPECT_EQ(environment.job, "job-1");
  EXPECT_EQ(environment.generation, Generation{7});
  EXPECT_EQ(environment.data_address, "10.1.0.3");
  EXPECT_EQ(environment.rank, Rank{5});
  EXPECT_EQ(environment.local_rank, 1u);
  EXPECT_EQ(environment.world_size, 8u);
  EXPECT_EQ(environment.local_world_size, 4u);
  EXPECT_EQ(environment.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(environment.port_first, 0) << "any port will do";
  ::setenv("DLAUNCH_PORTS", "29600-29899", 1);
  EXPECT_EQ(read_environment()->port_first, 29'600);
  EXPECT_EQ(read_environment()->port_last, 29'899);
}

TEST_F(EnvironmentTest, EverythingThatIsWrongIsNamedAtOnce) {
  ::unsetenv("DLAUNCH_SOCKET");
  ::setenv("DLAUNCH_JOB", "", 1);
  ::setenv("RANK", "5x", 1);
  ::setenv("WORLD_SIZE", "99999999999", 1);
  ::setenv("DLAUNCH_PORTS", "29899-29600", 1);
  const auto why = read_environment().error().text();
  EXPECT_THAT(why, testing::HasSubstr("DLAUNCH_SOCKET is not set"));
  EXPECT_THAT(why, testing::HasSubstr("DLAUNCH_JOB is not set"));
  EXPECT_THAT(why, testing::HasSubstr("RANK is no whole number: 5x"));
  EXPECT_THAT(why, testing::HasSubstr("WORLD_SIZE is no whole number"));
  EXPECT_THAT(why, testing::HasSubstr("DLAUNCH_PORTS is no range of ports: 29899-29600"));
}

}  // namespace
}  // namespace dlaunch::trainer
