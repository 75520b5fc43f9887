#include "simulation/trace.h"

#include <array>
#include <cstdio>

namespace dlaunch::simulation {

void Trace::add(Instant now, const std::string& who, const std::string& what,
                const std::string& detail) {
  constexpr std::int64_t kHour = 3'600'000, kMinute = 60'000, kSecond = 1000;
  const std::int64_t ms = (now - start_) / 1ms;
  std::array<char, 96> columns{};
  std::snprintf(columns.data(), columns.size(), "%4lld:%02lld:%02lld.%03lld  %-8s %-20s ",
                static_cast<long long>(ms / kHour), static_cast<long long>(ms % kHour / kMinute),
                static_cast<long long>(ms % kMinute / kSecond),
                static_cast<long long>(ms % kSecond), who.c_str(), what.c_str());
  auto line = columns.data() + detail;
  for (const char c : line) {
    hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  if (sink_) sink_(line);
  newest_.push_back(std::move(line));
  if (newest_.size() > kLinesKept) newest_.pop_front();
}

}  // namespace dlaunch::simulation
