#include "trainer/io/machine.h"

#include <malloc.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace dlaunch::trainer {
namespace {

constexpr std::uint64_t kKibibyte = 1024;
constexpr int kMappedBytesMin = 32 << 20;  // what is larger is mapped alone; glibc takes no more
constexpr int kFreeBytesMax = 256 << 20;
constexpr const char* kHighestClock = "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq";

/// What stands behind the first colon.
std::string_view value_of(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  const auto first = line.find_first_not_of(" \t", colon + 1);
  return first == std::string_view::npos ? std::string_view{} : line.substr(first);
}

template <class Number>
Number number_of(std::string_view text) {
  Number number{};
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos;
       at = words.find(word, at + 1)) {
    const bool begins = at == 0 || words[at - 1] == ' ';
    const auto end = at + word.size();
    if (begins && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

std::string processor_name() {
  std::ifstream facts("/proc/cpuinfo");
  for (std::string line; std::getline(facts, line);) {
    if (line.rfind("model name", 0) == 0) return std::string(value_of(line));
  }
  return "unknown processor";
}

void keep_freed_memory() {
  // A refusal costs time only.
  (void)::mallopt(M_MMAP_THRESHOLD, kMappedBytesMin);
  (void)::mallopt(M_TRIM_THRESHOLD, kFreeBytesMax);
}

MemoryUse memory_use() {
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) {
      use.peak = number_of<std::uint64_t>(value_of(line)) * kKibibyte;
    } else if (line.rfind("VmRSS:", 0) == 0) {
      use.now = number_of<std::uint64_t>(value_of(line)) * kKibibyte;
      break;  // it stands behind the peak
    }
  }
  return use;
}

double flops_per_cycle(std::string_view flags) {
  constexpr double kUnits = 2, kFused = 2, kFloatBytes = 4;
  const double vector_bytes = has_word(flags, "avx512f")                          ? 64
                              : has_word(flags, "avx2") && has_word(flags, "fma") ? 32
                                                                                  : 0;
  return kUnits * kFused * vector_bytes / kFloatBytes;
}

double peak_flops_per_second(unsigned cores) {
  double hertz = 0;
  double per_cycle = 0;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.rfind("cpu MHz", 0) == 0) {
      hertz = std::max(hertz, 1e6 * number_of<double>(value_of(line)));
    } else if (per_cycle == 0 && line.rfind("flags", 0) == 0) {
      per_cycle = flops_per_cycle(value_of(line));
    }
  }
  std::ifstream clock(kHighestClock);
  if (double kilohertz = 0; clock >> kilohertz) hertz = std::max(hertz, 1e3 * kilohertz);
  return cores * hertz * per_cycle;
}

}  // namespace dlaunch::trainer
