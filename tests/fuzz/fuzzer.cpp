// One libFuzzer program per target; its name is FUZZ_TARGET.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const auto& target = dlaunch::fuzz::target_named(FUZZ_TARGET);
  target.run({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
