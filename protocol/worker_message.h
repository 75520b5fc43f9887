// What workers and agents say to each other over the worker socket: one JSON object a line
// (docs/protocol.md, "Worker socket"). Both directions are read and written here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace dlaunch::protocol {

/// The single messages; the generation that each carries stands in the envelope below.
namespace worker {

struct Hello {
  std::uint32_t protocol = 1;
  Rank rank;
  std::uint32_t local_rank = 0;
  std::uint32_t pid = 0;
};
struct Ready {
  std::string address;
  std::uint16_t port = 0;
};
struct Parked {
  std::optional<Step> live_step;
  bool live_clean = false;
};
struct Connected {};
struct Restored {
  Step step;
  std::string differs{};  ///< why the bits may not be those of an undisturbed run; cut like reasons
};
/// Of the last completed step, unless it says otherwise; 0 or empty: not known.
struct Figures {
  std::optional<double> gradient_norm;           ///< of the mean gradient, before it was clipped
  std::optional<double> validation_loss;         ///< the newest
  std::optional<std::uint64_t> validation_step;  ///< steps completed when it was taken
  double seconds_p50 = 0;                        ///< of a step, over the recent ones
  double seconds_p95 = 0;
  double collective_seconds = 0;        ///< in which collectives were under way
  std::uint64_t bytes_sent = 0;         ///< to other ranks
  std::uint64_t memory_bytes = 0;       ///< resident, of this process
  std::uint64_t memory_peak_bytes = 0;  ///< since the process began
  double flops = 0;                     ///< floating-point operations of the model on this rank
  double gemm_flops_per_second = 0;     ///< of a large matrix product here, measured
  double peak_flops_per_second = 0;     ///< of this rank's cores or device, by their data sheet
};
struct Progress {
  Step step;  ///< completed
  std::string phase;
  double seconds = 0;          ///< of the last step
  double waiting = 0;          ///< of them, seconds spent waiting for other ranks
  std::optional<double> loss;  ///< empty before the first step, and when it is no number
  std::uint64_t tokens = 0;    ///< of the whole job in that step
  std::uint64_t sequence = 0;  ///< of the newest collective
  bool entered = false;        ///< true: still in it
  Figures figures;
};
struct Written {
  Step step;
  std::string file;
  std::uint64_t bytes = 0;
  std::string hash;  ///< XXH3-128, hex
  double seconds = 0;
};
enum class FailingCategory {
  user_error,
  storage,
  peer_lost,
  bad_numbers,
  config_error,
  out_of_memory,
  checkpoint_damaged  ///< the one to restore from; storage itself answers
};
struct Failing {
  FailingCategory category{};
  std::string reason;  ///< cut at kFailingReasonBytesMax when written
  std::optional<Rank> suspect_rank;
};
struct Finished {
  Step step;
};

struct Endpoint {
  Rank rank;
  std::string address;
  std::uint16_t port = 0;
};
/// Some of those of the next assignment of this generation, which is too long for one line.
struct Endpoints {
  std::vector<Endpoint> endpoints;
};
struct Restore {
  Step step;
  std::string directory;  ///< ".../step-800"
};
struct Assign {
  std::string job;
  std::string group;
  Incarnation incarnation;
  Rank rank;
  std::uint32_t world_size = 1;
  std::uint32_t local_rank = 0;
  std::string token;  ///< hex
  std::vector<Endpoint> endpoints;
  std::optional<Restore> restore;
  std::string checkpoint_directory;
  std::string trainer = "{}";  ///< text of a JSON object; trainer/settings.h reads it
};
struct Go {};
struct Abort {
  std::string reason;
};
struct CheckpointAt {};
struct Stop {
  bool checkpoint = true;
};
struct Committed {
  Step step;
};

}  // namespace worker

/// Worker → agent.
struct WorkerMessage {
  using Body = std::variant<worker::Hello, worker::Ready, worker::Parked, worker::Connected,
                            worker::Restored, worker::Progress, worker::Written, worker::Failing,
                            worker::Finished>;
  Generation generation;
  Body body;
};
/// Agent → worker.
struct AgentMessage {
  using Body = std::variant<worker::Assign, worker::Go, worker::Abort, worker::CheckpointAt,
                            worker::Stop, worker::Committed, worker::Endpoints>;
  Generation generation;
  Body body;
};

/// Longer reasons are cut, so that a sentence never makes a line too long.
constexpr std::size_t kFailingReasonBytesMax = 4096;

/// "peer_lost"
[[nodiscard]] std::string_view name_of(worker::FailingCategory category);

/// With the newline. Fails only for what does not fit kWorkerLineBytesMax or when `trainer` is not
/// a JSON object.
[[nodiscard]] Result<std::string> format_line(const WorkerMessage& message);
[[nodiscard]] Result<std::string> format_line(const AgentMessage& message);
/// The same in as many lines as it takes: before a long assignment go `endpoints` lines, and
/// whoever reads it puts theirs in front of its own.
[[nodiscard]] Result<std::string> format_lines(const AgentMessage& message);

/// `line` without its newline. nullopt: a type of a later protocol, to be ignored. An error (not
/// an object, a key missing or of the wrong type, too long) ends the connection.
[[nodiscard]] Result<std::optional<WorkerMessage>> parse_worker_line(std::string_view line);
[[nodiscard]] Result<std::optional<AgentMessage>> parse_agent_line(std::string_view line);

/// Cuts a byte stream into lines. Owned by one connection.
class LineReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// nullopt: no whole line yet. An error (longer than kWorkerLineBytesMax) ends the connection.
  [[nodiscard]] Result<std::optional<std::string>> next();

 private:
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace dlaunch::protocol
