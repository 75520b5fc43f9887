#include "launcher/io/plant_conversation.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <optional>
#include <variant>
#include <vector>

#include "launcher/launch/remote_talk.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

class Conversation {
 public:
  Conversation(StartShell& shell, const launch::StartScript& script,
               const ConversationReports& reports)
      : shell_(shell),
        script_(script),
        reports_(reports),
        talk_(launch::magic_line(script.nonce)) {}

  Planting<launch::HostFacts> begin(const Deadline& deadline) {
    // A shell that ended at once breaks the write; what it said is worth more than that.
    (void)shell_.write(launch::to_text(script_), deadline);
    const auto answer = expect<launch::HostFacts, launch::MoreWanted>(deadline);
    if (!answer) return tl::unexpected(answer.error());
    if (const auto* facts = std::get_if<launch::HostFacts>(&*answer)) return *facts;
    (void)shell_.write(launch::rest_of(script_), deadline);
    return expect_one<launch::HostFacts>(deadline);
  }

  Planting<void> send_agent(const launch::HostFacts& facts, const Deadline& deadline) {
    const auto agent =
        std::find_if(script_.agents.begin(), script_.agents.end(),
                     [&](const auto& each) { return each.machine == facts.machine; });
    if (agent == script_.agents.end()) {
      return plant_failure(Cause::wrong_architecture, "the host is " + facts.machine);
    }
    std::ifstream file(agent->path, std::ios::binary);
    std::vector<char> chunk(kChunkBytes);
    std::uint64_t left = agent->size_bytes;
    while (left > 0) {
      file.read(chunk.data(),
                static_cast<std::streamsize>(std::min<std::uint64_t>(left, chunk.size())));
      const auto count = static_cast<std::size_t>(file.gcount());
      if (count == 0) {
        return plant_failure(Cause::agent_failed, agent->path + " cannot be read on this machine");
      }
      // As above: a full disk is told by the answer, not by the broken write.
      if (!shell_.write({chunk.data(), count}, deadline)) break;
      left -= count;
    }
    const auto copied = expect_one<launch::AgentCopied>(deadline);
    if (!copied) return tl::unexpected(copied.error());
    return {};
  }

  Planting<void> hand_over(const protocol::Bootstrap& bootstrap, const Deadline& deadline) {
    (void)shell_.write(protocol::to_line(bootstrap), deadline);
    const auto started = expect_one<launch::AgentStarted>(deadline);
    if (!started) return tl::unexpected(started.error());
    return {};
  }

  Planting<std::optional<Tunnel>> await_welcome(const Deadline& deadline) {
    const auto welcomed = expect<launch::AgentWelcomed, launch::AgentTunnel>(deadline);
    if (welcomed && std::holds_alternative<launch::AgentWelcomed>(*welcomed)) return std::nullopt;
    if (welcomed) return Tunnel{talk_.take_rest()};
    if (welcomed.error().cause != Cause::silent) return tl::unexpected(welcomed.error());
    return plant_failure(Cause::cannot_dial_back,
                         dialing_.empty() ? "" : "it last dialled " + dialing_);
  }

 private:
  /// The next word of these kinds; a failure of the other side, its end or its silence otherwise.
  template <class... Wanted>
  Planting<std::variant<Wanted...>> expect(const Deadline& deadline) {
    while (true) {
      while (!words_.empty()) {
        const launch::Word word = std::move(words_.front());
        words_.pop_front();
        std::optional<std::variant<Wanted...>> wanted;
        ((std::holds_alternative<Wanted>(word) ? void(wanted = std::get<Wanted>(word)) : void()),
         ...);
        if (wanted) return *wanted;
        if (const auto* failed = std::get_if<launch::StartFailed>(&word)) {
          return tl::unexpected(PlantFailure{failed->cause, failed->detail, failed->directory});
        }
        if (const auto* notice = std::get_if<launch::HostNotice>(&word)) {
          reports_.notice(notice->sentence);
        }
        if (const auto* dialing = std::get_if<launch::AgentDialing>(&word)) {
          dialing_ = dialing->address;
        }
      }
      const auto bytes = shell_.read(deadline);
      if (!bytes) return tl::unexpected(bytes.error());
      if (bytes->empty()) return plant_failure(Cause::agent_failed, last_words());
      const auto heard = talk_.take(*bytes);
      words_.insert(words_.end(), heard.begin(), heard.end());
    }
  }

  template <class Wanted>
  Planting<Wanted> expect_one(const Deadline& deadline) {
    auto word = expect<Wanted>(deadline);
    if (!word) return tl::unexpected(word.error());
    return std::get<Wanted>(*word);
  }

  std::string last_words() {
    std::string text = shell_.errors();
    if (!talk_.begun() && text.empty()) text = talk_.noise();
    return text.empty() ? "the shell there ended without a word" : "it said: " + text;
  }

  StartShell& shell_;
  const launch::StartScript& script_;
  const ConversationReports& reports_;
  launch::RemoteTalk talk_;
  std::deque<launch::Word> words_;
  std::string dialing_;
};

}  // namespace

Planting<std::optional<Tunnel>> converse(StartShell& shell, const launch::StartScript& script,
                                         protocol::Bootstrap bootstrap, ConversationLimits limits,
                                         const ConversationReports& reports) {
  const Deadline start(limits.start);
  Conversation conversation(shell, script, reports);
  const auto facts = conversation.begin(start);
  if (!facts) return tl::unexpected(facts.error());
  if (!facts->has_agent) {
    const auto copied = conversation.send_agent(*facts, start);
    if (!copied) return tl::unexpected(copied.error());
  }
  bootstrap.scratch = facts->directory;
  const auto handed = conversation.hand_over(bootstrap, start);
  if (!handed) return tl::unexpected(handed.error());
  reports.started();
  return conversation.await_welcome(Deadline(limits.hello));
}

}  // namespace dlaunch::launcher::io
