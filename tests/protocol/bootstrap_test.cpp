#include "protocol/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::protocol {
namespace {

using testing::HasSubstr;

TEST(Bootstrap, IsOneLineWhateverTheEnvironmentHolds) {
  Bootstrap bootstrap;
  bootstrap.environment = {{"A", "two\nlines\"'\xff"}};
  bootstrap.lease = 60s;
  const std::string line = to_line(bootstrap);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, HasSubstr("\"lease_seconds\":60.0"));
  bootstrap.job = "kjv-1";
  bootstrap.host = "gpu01";
  bootstrap.incarnation = Incarnation{7};
  bootstrap.scratch = "/tmp/d";
  bootstrap.addresses = {{"10.0.0.1", 29600}};
  bootstrap.stop_on_lease_end = false;
  bootstrap.control = Control::ssh;
  const auto read = parse_bootstrap(to_line(bootstrap));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->incarnation, Incarnation{7});
  EXPECT_EQ(read->control, Control::ssh);
  EXPECT_EQ(read->environment.at("A"), "two\nlines\"'\xEF\xBF\xBD");
  EXPECT_EQ(to_line(*read), to_line(bootstrap));
}

TEST(Bootstrap, IsReadAndWhatIsWrongIsNamedWithoutItsValue) {
  const std::string good =
      R"({"job":"kjv-1","host":"gpu01","host_id":3,"secret":"5ec7e7","scratch":"/tmp/d",)"
      R"("addresses":[{"address":"10.0.0.1","port":29600}],"lease_seconds":2.5,"on_lease_end":"keep"})";
  const auto bootstrap = parse_bootstrap(good);
  ASSERT_TRUE(bootstrap) << bootstrap.error().text();
  EXPECT_EQ(bootstrap->host_id, HostId{3});
  EXPECT_EQ(bootstrap->lease, 2500ms);
  EXPECT_FALSE(bootstrap->stop_on_lease_end);
  EXPECT_EQ(bootstrap->directory(), "/tmp/d/kjv-1/gpu01");
  const auto without = [&](const std::string& part, const std::string& other) {
    auto text = good;
    return text.replace(text.find(part), part.size(), other);
  };
  for (const auto& text :
       {std::string("no JSON"), without("kjv-1", "../x"), without("gpu01", "a/b"),
        without("/tmp/d", "tmp"), without(R"("port":29600)", R"("port":"x")"),
        without("29600", "6.9e4"), without("29600", "65536"), without("29600", "-1"),
        without(R"("host_id":3)", R"("host_id":3e30)"),
        without(R"("host":"gpu01")", R"("host":["gpu01"])"),
        without(R"("scratch")", R"("environment":{"A":1},"scratch")"),
        without(R"("scratch")", R"("control":"x","scratch")"),
        without(R"({"address":"10.0.0.1","port":29600})", "")}) {
    const auto refused = parse_bootstrap(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().text().find("5ec7e7"), std::string::npos);
  }
}

TEST(Bootstrap, HasALeaseThatTimeCanHold) {
  const auto with = [](const std::string& lease) {
    return parse_bootstrap(R"({"job":"j","host":"h","host_id":3,"secret":"","scratch":"/tmp",)"
                           R"("addresses":[{"address":"10.0.0.1","port":1}],"lease_seconds":)" +
                           lease + "}");
  };
  ASSERT_TRUE(with("1e300"));
  EXPECT_GT(with("1e300")->lease, nanoseconds(24h) * 365);
  EXPECT_FALSE(with(R"("60")"));
}

}  // namespace
}  // namespace dlaunch::protocol
