// The user's files. Whatever they hold, the answer is a setting or problems in words.
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/check.h"
#include "launcher/config/host_range.h"
#include "launcher/config/hosts_file.h"
#include "launcher/config/resolved.h"
#include "launcher/config/train_file.h"
#include "tests/fuzz/target.h"

namespace dlaunch::fuzz {
namespace {

namespace config = launcher::config;

constexpr std::size_t kHostsMax = 65'536;

void check(const std::vector<config::Problem>& problems) {
  DL_CHECK(!problems.empty(), "a file that is refused has a problem");
  for (const auto& problem : problems) DL_CHECK(!problem.what.empty(), "a problem says what");
  DL_CHECK(!config::to_text(problems).empty(), "problems can be told");
}

void check(const config::HostsOrProblems& parsed) {
  if (const auto* problems = std::get_if<std::vector<config::Problem>>(&parsed)) {
    return check(*problems);
  }
  const auto& hosts = std::get<config::HostsFile>(parsed).hosts;
  DL_CHECK(!hosts.empty() && hosts.size() <= kHostsMax, "a job has hosts, and not too many");
  std::set<std::string> names;
  for (const auto& host : hosts) {
    DL_CHECK(!host.name.empty() && names.insert(host.name).second, "each host has its own name");
  }
}

}  // namespace

void hosts_toml(std::string_view bytes) { check(config::parse_hosts_toml(bytes, "hosts.toml")); }
void host_lines(std::string_view bytes) { check(config::parse_host_lines(bytes, "hosts")); }

void host_range(std::string_view bytes) {
  const auto names = config::expand_range(bytes);
  if (names) {
    DL_CHECK(!names->empty() && names->size() <= kHostsMax, "a range has names, not too many");
  } else {
    DL_CHECK(!names.error().text().empty(), "a refusal has a reason");
  }
  (void)config::expand_list(bytes);
}

void train_toml(std::string_view bytes) {
  const auto parsed = config::parse_train(bytes, {"train.toml", "/home/ann/exp", "/home/ann", {}});
  if (const auto* problems = std::get_if<std::vector<config::Problem>>(&parsed)) check(*problems);
}

void resolved_toml(std::string_view bytes) {
  const auto parsed = config::read_resolved(bytes, "job.toml");
  if (const auto* problems = std::get_if<std::vector<config::Problem>>(&parsed)) {
    return check(*problems);
  }
  const auto text = config::write_resolved(std::get<config::Resolved>(parsed));
  const auto again = config::read_resolved(text, "job.toml");
  DL_CHECK(std::holds_alternative<config::Resolved>(again), "what is kept can be read back");
  DL_CHECK(config::write_resolved(std::get<config::Resolved>(again)) == text, "and is the same");
}

}  // namespace dlaunch::fuzz
