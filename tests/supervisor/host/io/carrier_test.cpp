#include "supervisor/host/io/carrier.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/io/temporary_directory.h"

namespace dlaunch::supervisor::host {
namespace {

class CarrierTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(temporary_.text() + "/eth1"); }
  std::vector<bool> look(const char* carrier, const char* downs) {
    std::ofstream(temporary_.text() + "/eth1/carrier") << carrier << "\n";
    std::ofstream(temporary_.text() + "/eth1/carrier_down_count") << downs << "\n";
    return carrier_.look("eth1");
  }
  const TemporaryDirectory temporary_;
  Carrier carrier_{temporary_.text()};
};

TEST_F(CarrierTest, SaysWhatItSees) {
  EXPECT_EQ(look("1", "4"), std::vector{true}) << "what was before the first look is no flap";
  EXPECT_EQ(look("1", "4"), std::vector{true});
  EXPECT_EQ(look("0", "5"), std::vector{false});
  EXPECT_EQ(look("1", "5"), std::vector{true});
}

TEST_F(CarrierTest, AFlapBetweenTwoLooksIsSeenByTheKernelsCount) {
  (void)look("1", "4");
  EXPECT_EQ(look("1", "5"), (std::vector{false, true}));
  EXPECT_EQ(look("1", "5"), std::vector{true});
}

TEST_F(CarrierTest, AnInterfaceThatIsGoneIsDown) {
  (void)look("1", "4");
  EXPECT_EQ(carrier_.look("eth2"), std::vector{false});
}

}  // namespace
}  // namespace dlaunch::supervisor::host
