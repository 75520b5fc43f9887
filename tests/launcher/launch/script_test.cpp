// Conversations with the launch as text: scripts/*.txt, one case each.
//   hosts a b c@bastion         a host and, after @, the SSH server it shares
//   limits connect=10s endpoint=8 total=64
//   at 0s start => plant a#1; plant b#1
//   wait 8s..10s => plant a#2   the next deadline lies in that span after the line before
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "base/units.h"
#include "launcher/launch/launch.h"

namespace dlaunch::launcher::launch {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? std::string()
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

Cause cause_named(const std::string& name) {
  for (int number = 0; number <= static_cast<int>(Cause::cancelled); ++number) {
    if (name == to_string(static_cast<Cause>(number))) return static_cast<Cause>(number);
  }
  ADD_FAILURE() << "no such cause: " << name;
  return Cause::cancelled;
}

class Conversation {
 public:
  void run(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      line = trimmed(line.substr(0, line.find("  //")));
      if (line.empty() || line.starts_with("#")) continue;
      SCOPED_TRACE(path.filename().string() + ":" + std::to_string(number) + ": " + line);
      carry_out(line);
    }
  }

 private:
  void carry_out(const std::string& line) {
    const auto arrow = line.find("=>");
    std::istringstream words(line.substr(0, arrow));
    std::string verb;
    words >> verb;
    if (verb == "hosts") return hosts(words);
    if (verb == "limits") return limits(words);
    if (!launch_) launch_ = std::make_unique<Launch>(policy_, rng_);
    const Event event = verb == "at" ? event_at(words) : deadline(words);
    const std::string expected = arrow == std::string::npos ? "" : trimmed(line.substr(arrow + 2));
    EXPECT_EQ(trace(launch_->step(now_, event)), expected);
  }

  void hosts(std::istringstream& words) {
    std::string word;
    while (words >> word) {
      const auto at = word.find('@');
      const HostId id{static_cast<std::uint32_t>(policy_.hosts.size())};
      const std::string name = word.substr(0, at);
      ids_[name] = id;
      policy_.hosts.push_back({id, name, at == std::string::npos ? name : word.substr(at + 1)});
    }
  }

  void limits(std::istringstream& words) {
    std::string word;
    while (words >> word) {
      const std::string value = word.substr(word.find('=') + 1);
      if (word.starts_with("connect=")) policy_.connect_timeout = *parse_duration(value);
      if (word.starts_with("endpoint=")) {
        policy_.per_endpoint_max = static_cast<std::uint32_t>(std::stoul(value));
      }
      if (word.starts_with("total=")) {
        policy_.total_max = static_cast<std::uint32_t>(std::stoul(value));
      }
    }
  }

  Event event_at(std::istringstream& words) {
    std::string time;
    std::string verb;
    std::string target;
    std::string rest;
    words >> time >> verb >> target;
    std::getline(words, rest);
    rest = trimmed(rest);
    now_ = Instant{*parse_duration(time)};
    if (verb == "start") return StartAll{};
    if (verb == "stop") return StopAll{};
    const auto hash = target.find('#');
    const HostId host = ids_.at(target.substr(0, hash));
    const std::uint64_t attempt =
        hash == std::string::npos ? 0 : std::stoull(target.substr(hash + 1));
    if (verb == "connected") return PlantProgress{host, attempt, Stage::connected};
    if (verb == "started") return PlantProgress{host, attempt, Stage::started};
    if (verb == "planted") return Planted{host, attempt};
    if (verb == "hello") return HelloSeen{host};
    if (verb == "failed") return PlantFailed{host, attempt, cause_named(rest), rest};
    EXPECT_EQ(verb, "replant");
    return Replant{host, rest};
  }

  Event deadline(std::istringstream& words) {
    std::string span;
    words >> span;
    const auto dots = span.find("..");
    const auto next = launch_->next_deadline();
    EXPECT_TRUE(next.has_value()) << "nothing to wait for";
    if (next) {
      EXPECT_GE(*next - now_, *parse_duration(span.substr(0, dots)));
      EXPECT_LE(*next - now_, *parse_duration(span.substr(dots + 2)));
      now_ = *next;
    }
    return DeadlineDue{};
  }

  std::string name_of_host(HostId id) const { return policy_.hosts.at(id.value).name; }

  std::string trace(const std::vector<Command>& commands) const {
    std::string text;
    for (const Command& command : commands) {
      if (!text.empty()) text += "; ";
      if (const auto* plant = std::get_if<Plant>(&command)) {
        text += "plant " + name_of_host(plant->host) + "#" + std::to_string(plant->attempt);
      } else if (const auto* dropped = std::get_if<CancelPlant>(&command)) {
        text += "cancel " + name_of_host(dropped->host) + "#" + std::to_string(dropped->attempt);
      } else if (const auto* planted = std::get_if<HostPlanted>(&command)) {
        text += "present " + name_of_host(planted->host);
      } else {
        const auto& failed = std::get<HostFailed>(command);
        text += "failed " + name_of_host(failed.host) + " " + to_string(failed.cause) +
                (failed.retried ? "" : " for good");
      }
    }
    return text;
  }

  Policy policy_;
  Rng rng_{7};
  std::map<std::string, HostId> ids_;
  std::unique_ptr<Launch> launch_;
  Instant now_{};
};

class LaunchScript : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(LaunchScript, GoesAsWritten) { Conversation().run(GetParam()); }

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(LAUNCH_SCRIPTS)) {
    found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(All, LaunchScript, testing::ValuesIn(scripts()),
                         [](const auto& script) { return script.param.stem().string(); });

}  // namespace
}  // namespace dlaunch::launcher::launch
