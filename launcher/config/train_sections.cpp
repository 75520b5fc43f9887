#include "launcher/config/train_sections.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/units.h"

namespace dlaunch::launcher::config {
namespace {

constexpr std::int64_t kHostsMax = 65'536;
constexpr std::int64_t kReplicasMax = 16;
constexpr std::int64_t kKeepMax = 1'000'000;
constexpr std::int64_t kRestartsMax = 1'000'000;
constexpr std::size_t kJobNameMax = 64;
constexpr nanoseconds kHeartbeatMin = 10ms;
constexpr nanoseconds kLostAfterMin = 100ms;
constexpr nanoseconds kLeaseMin = 1s;
constexpr nanoseconds kCheckpointEveryMin = 1s;

bool good_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

bool is_job_name(std::string_view name) {
  return !name.empty() && name.size() <= kJobNameMax && name.front() != '-' &&
         name.front() != '.' && std::all_of(name.begin(), name.end(), good_in_name);
}

std::optional<std::uint32_t> count(std::string_view digits, std::int64_t max) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool good = error == std::errc{} && end == digits.data() + digits.size();
  return good && value > 0 && value <= max ? std::optional(value) : std::nullopt;
}

void read_hosts_wanted(Section& section, JobSection& job) {
  const auto* node = section.find("hosts");
  if (node == nullptr) return;
  const auto* text = node->as_string();
  if (text == nullptr) {
    section.whole("hosts", job.hosts_max, 1, kHostsMax);
    job.hosts_min = job.hosts_max;
    return;
  }
  const std::string& range = text->get();
  const auto dots = range.find("..");
  const auto min = count(range.substr(0, dots), kHostsMax);
  const auto max = dots == std::string::npos ? min : count(range.substr(dots + 2), kHostsMax);
  if (!min || !max || *min > *max) {
    return section.wrong("hosts", "`hosts` is \"" + range + "\"",
                         "expected a number, or \"2..4\" for at least 2 and at most 4");
  }
  job.hosts_min = *min;
  job.hosts_max = *max;
}

void read_every(Section& section, CheckpointEvery& every) {
  const auto* node = section.find("every");
  if (node == nullptr) return;
  const std::string expected = "expected \"auto\", \"100 steps\" or \"10 min\"";
  const auto* text = node->as_string();
  if (text == nullptr) {
    return section.wrong("every", "`every` in [checkpoint] is " + kind_of(*node), expected);
  }
  const std::string& value = text->get();
  if (value == "auto") {
    every = EveryAuto{};
    return;
  }
  if (const auto steps = steps_in(value)) {
    every = EverySteps{*steps};
    return;
  }
  const auto interval = parse_duration(value);
  if (!interval || *interval < kCheckpointEveryMin || *interval > kDurationMax) {
    return section.wrong("every", "`every` is \"" + value + "\"", expected + ", at least 1 s");
  }
  every = EveryTime{*interval};
}

}  // namespace

std::optional<std::uint32_t> steps_in(std::string_view text) {
  for (const std::string_view unit : {"steps", "step"}) {
    if (!text.ends_with(unit)) continue;
    auto digits = text.substr(0, text.size() - unit.size());
    while (digits.ends_with(' ')) digits.remove_suffix(1);
    return count(digits, std::numeric_limits<std::uint32_t>::max());
  }
  return std::nullopt;
}

std::string absolute_path(std::string_view path, const TrainContext& context) {
  std::string whole(path);
  if (path == "~" || path.starts_with("~/")) {
    whole = context.home + whole.substr(1);
  } else if (!path.starts_with("/")) {
    whole = context.directory + "/" + whole;
  }
  auto normal = std::filesystem::path(whole).lexically_normal().string();
  if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

void read_path(Section& section, std::string_view key, std::string& into,
               const TrainContext& context) {
  std::string path;
  section.text(key, path);
  if (!section.has(key) || !section.find(key)->is_string()) return;
  const bool other_home = path.starts_with("~") && path != "~" && !path.starts_with("~/");
  if (path.empty() || other_home) {
    return section.wrong(
        key, "`" + std::string(key) + "` is \"" + path + "\"",
        other_home ? "expected a path; only ~/ stands for a home" : "expected a path");
  }
  into = absolute_path(path, context);
}

std::string default_job_name(const std::string& directory) {
  auto name = std::filesystem::path(directory).lexically_normal().filename().string();
  for (char& c : name) c = good_in_name(c) ? c : '-';
  name.resize(std::min(name.size(), kJobNameMax));
  return is_job_name(name) ? name : "job";
}

void read_job(Section section, JobSection& job, std::vector<std::string>& notices) {
  std::string name;
  section.text("name", name);
  if (const auto* node = section.find("name"); node != nullptr && node->is_string()) {
    if (is_job_name(name)) {
      job.name = name;
    } else {
      section.wrong("name", "`name` is \"" + name + "\"",
                    "expected at most 64 letters, digits, '-', '_' and '.', no '-' or '.' first");
    }
  }
  read_hosts_wanted(section, job);
  section.duration("start_timeout", job.start_timeout, 1s);
  section.whole("hosts_step", job.hosts_step, 1, kHostsMax);
  if (job.hosts_min % job.hosts_step != 0 || job.hosts_max % job.hosts_step != 0) {
    section.wrong("hosts_step", "`hosts` is no multiple of `hosts_step`",
                  "expected both ends of `hosts` to be multiples of it");
  }
  section.choice("bind", job.bind, {"numa"}, {"none"});
  if (section.has("bind")) notices.emplace_back("[job] bind: processes are not bound yet");
  section.finish();
}

void read_checkpoint(Section section, TrainFile& train, const TrainContext& context) {
  auto& checkpoint = train.checkpoint;
  if (train.trainer) checkpoint.directory = absolute_path("checkpoints", context);
  read_path(section, "directory", checkpoint.directory, context);
  if (!train.trainer && train.program) {
    for (const char* key : {"storage", "every", "keep", "resume", "memory", "replicas"}) {
      if (section.find(key) == nullptr) continue;
      section.wrong(key, "`" + std::string(key) + "` in [checkpoint] has no effect with [program]",
                    "leave it out; the program writes its checkpoints itself");
    }
    return section.finish();
  }
  std::string unused;
  section.choice("storage", unused, {"shared"}, {"local"});
  read_every(section, checkpoint.every);
  section.whole("keep", checkpoint.keep, 1, kKeepMax);
  section.choice("resume", unused, {"auto"});
  bool memory = false;
  section.flag("memory", memory);
  if (memory) {
    train.notices.emplace_back(
        "[checkpoint] memory: checkpoints in memory are not available yet; it is off");
  }
  checkpoint.memory = false;
  std::uint32_t replicas = 1;
  section.whole("replicas", replicas, 0, kReplicasMax);
  if (replicas != 1) {
    section.wrong("replicas",
                  "`replicas` = " + std::to_string(replicas) +
                      " in [checkpoint] is not available "
                      "yet: checkpoints in memory are not",
                  "leave it out");
  }
  section.finish();
}

void read_recovery(Section section, RecoverySection& recovery) {
  section.flag("spare_first", recovery.spare_first);
  section.duration("wait_for_host", recovery.wait_for_host, 0s);
  auto restarts = section.section("restarts");
  restarts.whole("process", recovery.restarts, 0, kRestartsMax);
  restarts.duration("window", recovery.restarts_window, 1s);
  restarts.finish();
  section.whole("no_progress_generations", recovery.no_progress_generations, 1, kRestartsMax);
  section.duration("stop_grace", recovery.stop_grace, 0s);
  section.duration_or_auto("lease", recovery.lease, kLeaseMin);
  std::string lease_end = recovery.stop_on_lease_end ? "stop" : "keep";
  section.choice("on_lease_end", lease_end, {"stop", "keep"});
  recovery.stop_on_lease_end = lease_end == "stop";
  section.flag("quarantine", recovery.quarantine);
  section.duration("partition_grace", recovery.partition_grace, 0s);
  section.duration("readmit", recovery.readmit);
  section.duration("abort_deadline", recovery.abort_deadline, 100ms);
  std::string unused;
  section.choice("exact", unused, {"report"}, {"require"});
  section.choice("straggler", unused, {"report"}, {"replace"});
  section.finish();
}

void read_health(Section section, TrainFile& train) {
  auto& health = train.health;
  section.duration("heartbeat", health.heartbeat, kHeartbeatMin);
  section.duration_or_auto("lost_after", health.lost_after, kLostAfterMin);
  const auto lost_after =
      health.lost_after.value_or(train.trainer ? kLostAfterTrainer : kLostAfterProgram);
  const auto longest = lost_after / kHeartbeatsPerLostAfter;
  if (section.has("heartbeat") && health.heartbeat > longest) {
    train.notices.push_back("[health] heartbeat: " + format_duration(health.heartbeat) +
                            " becomes " + format_duration(longest) + ", a fifth of lost_after (" +
                            format_duration(lost_after) + ")");
  }
  section.duration_or_auto("hang_floor", health.hang_floor, 100ms);
  section.duration("start_limit", health.start_limit, 1s);
  section.duration("checkpoint_limit", health.checkpoint_limit, 1s);
  section.later("evaluation_limit");
  section.duration_or_auto("link_window", health.link_window, 0s);
  section.finish();
}

}  // namespace dlaunch::launcher::config
