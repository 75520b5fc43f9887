// Reads the variables, all problems at once.
#include "trainer/io/environment.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <utility>

namespace dlaunch::trainer {

namespace {

class Reader {
 public:
  std::string text(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') complain(name, "is not set");
    return value == nullptr ? "" : value;
  }
  template <class T>
  T whole(const char* name) {
    const auto value = text(name);
    T number{};
    const auto end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, number);
    if (!value.empty() && (read.ec != std::errc{} || read.ptr != end)) {
      complain(name, "is no whole number: " + value);
    }
    return number;
  }
  /// "29600-29899"; 0 and 0: it is not set.
  std::pair<std::uint16_t, std::uint16_t> range(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr) return {};
    const std::string_view text(value);
    std::uint16_t first = 0, last = 0;
    const auto* end = text.data() + text.size();
    const auto low = std::from_chars(text.data(), end, first);
    const bool dash = low.ec == std::errc{} && low.ptr != end && *low.ptr == '-';
    const auto high = dash ? std::from_chars(low.ptr + 1, end, last) : low;
    const bool good = dash && high.ec == std::errc{} && high.ptr == end && 0 < first;
    if (!good || last < first) complain(name, "is no range of ports: " + std::string(text));
    return {first, last};
  }
  [[nodiscard]] const std::string& problems() const { return problems_; }

 private:
  void complain(const char* name, const std::string& trouble) {
    problems_ += (problems_.empty() ? "" : "; ") + std::string(name) + " " + trouble;
  }
  std::string problems_;
};

}  // namespace

Result<Environment> read_environment() {
  Reader reader;
  Environment environment;
  environment.socket = reader.text("DLAUNCH_SOCKET");
  environment.job = reader.text("DLAUNCH_JOB");
  environment.generation = Generation{reader.whole<std::uint64_t>("DLAUNCH_GENERATION")};
  environment.data_address = reader.text("DLAUNCH_DATA_ADDRESS");
  std::tie(environment.port_first, environment.port_last) = reader.range("DLAUNCH_PORTS");
  environment.rank = Rank{reader.whole<std::uint32_t>("RANK")};
  environment.local_rank = reader.whole<std::uint32_t>("LOCAL_RANK");
  environment.world_size = reader.whole<std::uint32_t>("WORLD_SIZE");
  environment.local_world_size = reader.whole<std::uint32_t>("LOCAL_WORLD_SIZE");
  environment.pid = static_cast<std::uint32_t>(::getpid());
  if (reader.problems().empty()) return environment;
  return failure(std::error_code{}, reader.problems());
}

}  // namespace dlaunch::trainer
