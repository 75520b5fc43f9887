#include "supervisor/job/signature.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::supervisor::job {
namespace {

TEST(Signature, IsFoundInAnyLineAndWithoutRegardToCase) {
  const std::vector<std::string> lines = {"step 7", "[rank3]: runtimeerror: cuda OUT of memory.",
                                          "Traceback ends"};
  const auto* found = find_signature(lines);
  ASSERT_NE(found, nullptr);
  EXPECT_STREQ(found->cause, "out_of_memory");
  EXPECT_EQ(find_signature(std::vector<std::string>{"KeyError: 7"}), nullptr);
  EXPECT_EQ(find_signature({}), nullptr);
}

TEST(Signature, OfSeveralTheMostExplainingCounts) {
  const std::vector<std::string> lines = {
      "NCCL WARN Call to ibv_poll_cq failed", "Connection reset by peer",
      "CUDA error: uncorrectable ECC error encountered",
      "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"};
  EXPECT_STREQ(find_signature(lines)->cause, "gpu_fault");
}

TEST(Signature, TheTableGoesFromWhatExplainsMoreToWhatExplainsLess) {
  auto last = Weight::host_fact;
  std::set<std::string> phrases;
  for (const auto& signature : signatures()) {
    EXPECT_LE(signature.weight, last) << signature.phrase;
    last = signature.weight;
    EXPECT_TRUE(phrases.insert(signature.phrase).second) << signature.phrase;
  }
}

}  // namespace
}  // namespace dlaunch::supervisor::job
