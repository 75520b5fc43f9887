#include "launcher/views/status_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/views/table.h"
#include "launcher/views/text.h"
#include "supervisor/job/figures.h"

namespace dlaunch::launcher::views {
namespace {

using nlohmann::json;

constexpr std::size_t kRanksShownMax = 32;
constexpr std::size_t kHostsShownAtStart = 16;

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

double number_of(const json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

const json& list_of(const json& object, const char* key) {
  static const json kEmpty = json::array();
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kEmpty;
}

const json& object_of(const json& object, const char* key) {
  static const json kEmpty = json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : kEmpty;
}

std::string rate(double tokens_per_second) {
  if (tokens_per_second >= 1e6) return format("%.1f M tokens/s", tokens_per_second / 1e6);
  if (tokens_per_second >= 1e4) return format("%.1f k tokens/s", tokens_per_second / 1e3);
  return format("%.0f tokens/s", tokens_per_second);
}

/// "1.2 GB": with the prefixes of `base`, 1000 or 1024.
std::string amount(double value, double base, const std::string& unit) {
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (value >= base && prefix + 1 < kPrefixes.size()) {
    value /= base;
    ++prefix;
  }
  std::string text = kPrefixes[prefix];
  if (base == 1024 && prefix > 0) text = prefix == 1 ? "Ki" : text + "i";
  return format(value >= 100 ? "%.0f " : "%.3g ", value) + text + unit;
}

std::string seconds_text(double seconds) {
  if (seconds < 0.9995) return format("%.3g ms", seconds * 1000);
  return format(seconds < 99.95 ? "%.3g s" : "%.0f s", seconds);
}

/// As exact as it is known: "40 s", "5 min", "3 h 20 min", "12 d 4 h".
std::string eta(double seconds_left) {
  const auto seconds = std::llround(std::min(seconds_left, 1e9));
  if (seconds < 60) return std::to_string(seconds) + " s";
  const auto minutes = (seconds + 30) / 60;
  if (minutes < 60) return std::to_string(minutes) + " min";
  const auto hours = minutes / 60;
  if (hours < 24) return std::to_string(hours) + " h " + std::to_string(minutes % 60) + " min";
  return std::to_string(hours / 24) + " d " + std::to_string(hours % 24) + " h";
}

bool is_over(const json& status) {
  const auto state = text_of(status, "state");
  return state == "finished" || state == "stopped" || state == "failed";
}

std::string join(std::initializer_list<std::string> parts) {
  std::string text;
  for (const auto& part : parts) {
    if (part.empty()) continue;
    text += (text.empty() ? "" : "  ") + part;
  }
  return text;
}

std::string headline(const json& status) {
  const auto state = text_of(status, "state");
  const auto reason = text_of(status, "reason");
  return join({"job " + text_of(status, "job"), "id " + text_of(status, "id"),
               reason.empty() ? state : state + ": " + reason}) +
         "\n" +
         join({"generation " + text_of(status, "generation"),
               "world size " + text_of(status, "world_size"), progress_line(status)}) +
         "\n";
}

std::string checkpoint_line(const json& status) {
  const auto found = status.find("checkpoint");
  if (found == status.end() || !found->is_object()) return "";
  const auto disk = text_of(*found, "disk_step");
  const auto every = text_of(*found, "every");
  return "checkpoint  " + (disk.empty() ? std::string("none yet") : "step " + disk + " on disk") +
         (every.empty() ? "" : ", every " + every) + "\n";
}

/// "41 % of what matrix products reach (12 % of the peak)"
std::string utilization(const json& figures) {
  const auto gemm = number_of(figures, "gemm_utilization", 0);
  const auto peak = number_of(figures, "peak_utilization", 0);
  if (gemm <= 0) return "";
  return format("%.0f %% of what matrix products reach", gemm * 100) +
         (peak > 0 ? format(" (%.0f %% of the peak)", peak * 100) : "");
}

std::string speed_line(const json& figures) {
  const auto median = number_of(figures, "step_seconds_p50", 0);
  if (median <= 0) return "";
  const auto flops = number_of(figures, "flops_per_second", 0);
  return "speed  " +
         join({"step " + seconds_text(median) + ", p95 " +
                   seconds_text(number_of(figures, "step_seconds_p95", 0)),
               "waiting " + seconds_text(number_of(figures, "waiting_seconds", 0)),
               flops > 0 ? amount(flops, 1000, "FLOP/s") : "", utilization(figures)}) +
         "\n";
}

std::string network_line(const json& figures) {
  const auto sent = number_of(figures, "bytes_sent", 0);
  if (sent <= 0) return "";
  const auto bus = number_of(figures, "bus_bytes_per_second", 0);
  return "network  " +
         join({amount(sent, 1000, "B") + " a step",
               bus > 0 ? amount(bus, 1000, "B/s") + " a rank" : ""}) +
         "\n";
}

std::string memory_line(const json& figures) {
  const auto now = number_of(figures, "memory_bytes", 0);
  if (now <= 0) return "";
  const auto imbalance = number_of(figures, "memory_imbalance", 0);
  return "memory  " +
         join({amount(now, 1024, "B") + " a rank",
               "peak " + amount(number_of(figures, "memory_peak_bytes", 0), 1024, "B"),
               imbalance > supervisor::job::kMemoryImbalanceMax
                   ? format("IMBALANCED: one rank needs %.0f %% less than another", imbalance * 100)
                   : ""}) +
         "\n";
}

std::string learning_line(const json& figures) {
  const auto norm = text_of(figures, "gradient_norm");
  const auto validation = text_of(figures, "validation_loss");
  const auto parts = join(
      {norm.empty() ? ""
                    : "gradient norm " + format("%.3g", number_of(figures, "gradient_norm", 0)),
       validation.empty()
           ? ""
           : "validation loss " + format("%.4f", number_of(figures, "validation_loss", 0)) +
                 " at step " + text_of(figures, "validation_step")});
  return parts.empty() ? "" : "learning  " + parts + "\n";
}

/// What is known of how the job learns and computes; nothing where no worker tells it.
std::string figure_lines(const json& status) {
  const auto& figures = object_of(status, "figures");
  auto text = learning_line(figures);
  if (is_over(status)) return text;
  return text + speed_line(figures) + network_line(figures) + memory_line(figures);
}

/// Of a job that is over nothing is heard and no agent lives.
std::string host_table(const json& status) {
  const bool over = is_over(status);
  std::vector<std::vector<std::string>> rows{{"HOST", "STATE", "RANKS"}};
  if (!over) rows[0].insert(rows[0].end(), {"HEARD", "AGENT"});
  rows[0].push_back("REASON");
  for (const auto& host : list_of(status, "hosts")) {
    std::vector<std::size_t> ranks;
    for (const auto& rank : list_of(host, "ranks")) ranks.push_back(rank.get<std::size_t>());
    const auto heard = number_of(host, "last_heartbeat_seconds", -1);
    std::vector<std::string> row{text_of(host, "name"), text_of(host, "state"), ranges(ranks)};
    if (!over) {
      row.push_back(heard < 0 ? "" : format("%.2f s", heard));
      row.push_back(text_of(host, "agent_pid"));
    }
    row.push_back(text_of(host, "reason"));
    rows.push_back(std::move(row));
  }
  return table(rows);
}

std::string rank_table(const json& status) {
  const auto& ranks = list_of(status, "ranks");
  const bool memory =
      !is_over(status) && std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) {
        return number_of(rank, "memory_bytes", 0) > 0;
      });
  std::vector<std::vector<std::string>> rows{{"RANK", "HOST", "PID", "STATE", "STEP", "PHASE"}};
  if (memory) rows[0].insert(rows[0].end(), {"WAITING", "MEMORY", "PEAK"});
  for (const auto& rank : ranks) {
    if (rows.size() > kRanksShownMax) break;
    rows.push_back({text_of(rank, "rank"), text_of(rank, "host"), text_of(rank, "pid"),
                    text_of(rank, "state"), text_of(rank, "step"), text_of(rank, "phase")});
    if (!memory) continue;
    for (const auto& cell : {seconds_text(number_of(rank, "waiting_seconds", 0)),
                             amount(number_of(rank, "memory_bytes", 0), 1024, "B"),
                             amount(number_of(rank, "memory_peak_bytes", 0), 1024, "B")}) {
      rows.back().push_back(cell);
    }
  }
  auto text = table(rows);
  if (ranks.size() > kRanksShownMax) {
    text +=
        "… and " + std::to_string(ranks.size() - kRanksShownMax) + " more ranks (--json has all)\n";
  }
  return text;
}

}  // namespace

std::string progress_line(const json& status) {
  const auto step = text_of(status, "step");
  const auto steps = text_of(status, "steps");
  if (step.empty()) return "no step yet";
  const auto loss = number_of(status, "loss", 0);
  const auto tokens = number_of(status, "tokens_per_second", 0);
  const auto seconds = number_of(status, "step_seconds", 0);
  const auto& figures = object_of(status, "figures");
  const auto validation = number_of(figures, "validation_loss", -1);
  const auto utilized = number_of(figures, "gemm_utilization", 0);
  const double left = number_of(status, "steps", 0) - number_of(status, "step", 0);
  return join({"step " + step + (steps.empty() || steps == "0" ? "" : "/" + steps),
               text_of(status, "loss").empty() ? "" : "loss " + format("%.4f", loss),
               validation >= 0 ? "validation " + format("%.4f", validation) : "",
               tokens > 0 ? rate(tokens) : "",
               utilized > 0 && !is_over(status) ? format("%.0f %% of GEMM", utilized * 100) : "",
               left > 0 && seconds > 0 && !is_over(status) ? "ETA " + eta(left * seconds) : ""});
}

std::string start_page(const json& summary) {
  std::vector<std::vector<std::string>> rows{{"HOST", "RANKS"}};
  const auto& hosts = list_of(summary, "hosts");
  for (const auto& host : hosts) {
    if (rows.size() > kHostsShownAtStart) break;
    std::vector<std::size_t> ranks;
    for (const auto& rank : list_of(host, "ranks")) ranks.push_back(rank.get<std::size_t>());
    rows.push_back({text_of(host, "name"), ranges(ranks)});
  }
  auto text = join({"job " + text_of(summary, "job"), "id " + text_of(summary, "id"),
                    "generation " + text_of(summary, "generation"),
                    "world size " + text_of(summary, "world_size")}) +
              "\n" + table(rows);
  if (hosts.size() > kHostsShownAtStart) {
    text += "… and " + std::to_string(hosts.size() - kHostsShownAtStart) +
            " more hosts (`dlaunch status` has all)\n";
  }
  return text;
}

std::string incident_text(const json& incident) {
  const auto sentence = text_of(incident, "sentence");
  auto text = "incident " + text_of(incident, "id") + " (" + text_of(incident, "cause") + ", " +
              text_of(incident, "verdict") + ")" + (sentence.empty() ? "" : ": " + sentence);
  const auto found = incident.find("seconds");
  const bool closed = incident.value("closed", true);
  if (closed && found != incident.end() && number_of(*found, "total", 0) > 0) {
    text += "\n  recovered in " + format("%.2f s", number_of(*found, "total", 0)) + " (";
    bool first = true;
    for (const auto* phase : {"detect", "abort", "replace", "regroup", "restore", "first_step"}) {
      text += (first ? "" : ", ") + std::string(phase) + " " +
              format("%.2f", number_of(*found, phase, 0));
      first = false;
    }
    text += "), " + text_of(incident, "lost_steps") + " steps done again";
    const auto exact = incident.find("exact");
    if (exact != incident.end() && *exact == false) text += ", not bit-identical";
  }
  for (const auto& line : list_of(incident, "last_lines")) {
    if (line.is_string()) text += "\n  | " + line.get<std::string>();
  }
  return text;
}

std::string event_line(const json& event) {
  const auto unix_seconds = number_of(event, "time", 0);
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  localtime_r(&whole, &local);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%F %T", &local);
  const auto part = [&](const char* key, const char* word) {
    const auto value = text_of(event, key);
    return value.empty() ? "" : word + value;
  };
  return join({stamp.data() + format("%.3f", unix_seconds - static_cast<double>(whole)).substr(1),
               text_of(event, "event"), part("generation", "generation "), part("host", "host "),
               part("rank", "rank "), part("step", "step "), text_of(event, "detail")});
}

std::string status_page(const json& status) {
  auto text =
      headline(status) + checkpoint_line(status) + figure_lines(status) + "\n" + host_table(status);
  if (!list_of(status, "ranks").empty()) text += "\n" + rank_table(status);
  const auto& incidents = list_of(status, "incidents");
  for (const auto& incident : incidents) text += "\n" + incident_text(incident) + "\n";
  return text;
}

}  // namespace dlaunch::launcher::views
