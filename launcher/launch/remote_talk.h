// What comes back over the start's stdout: noise of login scripts, then our lines, then the JSON
// lines of `dlaunch-agent plant`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/launch/cause.h"

namespace dlaunch::launcher::launch {

// A message of the day may be long; a binary that is catted by mistake is not read to its end.
constexpr std::size_t kNoiseBytesMax = std::size_t{64} << 10;
constexpr std::size_t kTalkLineBytesMax = std::size_t{8} << 10;

/// The agent is not there, or has to be looked at: the rest of the script is to be sent now.
struct MoreWanted {};
/// The scratch directory is chosen.
struct HostFacts {
  std::string machine;
  std::uint32_t uid = 0;
  std::string directory;   ///< `<scratch>/dlaunch-<uid>`
  bool has_agent = false;  ///< false: the binary is to be sent now
};
struct AgentCopied {};
/// Something about the host that the user should know.
struct HostNotice {
  std::string sentence;
};
/// `dlaunch-agent plant` started the holder.
struct AgentStarted {
  std::uint32_t pid = 0;
};
struct AgentDialing {
  std::string address;
};
struct AgentWelcomed {};
/// It cannot reach the controller by itself: what comes after this line are its bytes.
struct AgentTunnel {};
struct StartFailed {
  Cause cause = Cause::agent_failed;
  std::string directory;  ///< may be empty
  std::string detail;
};
using Word = std::variant<MoreWanted, HostFacts, AgentCopied, HostNotice, AgentStarted,
                          AgentDialing, AgentWelcomed, AgentTunnel, StartFailed>;

/// Never trusts its input: what breaks the rules becomes StartFailed, once.
class RemoteTalk {
 public:
  explicit RemoteTalk(std::string magic_line) : magic_line_(std::move(magic_line)) {}

  [[nodiscard]] std::vector<Word> take(std::string_view bytes);
  /// What came behind AgentTunnel; from there on nothing is a line.
  [[nodiscard]] std::string take_rest() { return std::exchange(rest_, ""); }
  /// False: not one line of ours came yet; `noise` is what came instead.
  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] const std::string& noise() const { return noise_; }

 private:
  void take_line(std::string_view line, std::vector<Word>& words);
  void fail(std::string detail, std::vector<Word>& words);

  std::string magic_line_;
  std::string line_;
  std::string noise_;  ///< its first bytes, for the sentence
  std::size_t noise_bytes_ = 0;
  std::string rest_;
  bool begun_ = false;
  bool tunnel_ = false;
  bool broken_ = false;
};

/// The cause with this name; agent_failed where there is none.
[[nodiscard]] Cause cause_named(std::string_view name);

}  // namespace dlaunch::launcher::launch
