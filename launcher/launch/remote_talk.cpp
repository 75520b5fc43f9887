#include "launcher/launch/remote_talk.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/utf8.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::launch {
namespace {

constexpr std::size_t kNoiseKeptBytes = 200;

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const auto tab = line.find('\t');
    fields.emplace_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

std::optional<Word> word_of_script(std::string_view line) {
  const auto fields = fields_of(line);
  if (fields[0] == "more") return MoreWanted{};
  if (fields[0] == "copied") return AgentCopied{};
  if (fields[0] == "failed" && fields.size() == 4) {
    return StartFailed{cause_named(fields[1]), fields[2], fields[3]};
  }
  if (fields[0] == "notice" && fields.size() == 2) return HostNotice{fields[1]};
  if (fields[0] != "ready" || fields.size() != 5) return std::nullopt;
  HostFacts facts{fields[1], 0, fields[3], fields[4] == "1"};
  const char* end = fields[2].data() + fields[2].size();
  if (std::from_chars(fields[2].data(), end, facts.uid).ptr != end) return std::nullopt;
  if (!facts.directory.starts_with('/')) return std::nullopt;
  return facts;
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Word> word_of_agent(std::string_view line) {
  const auto object = protocol::read_json(line);
  if (!object.is_object()) return std::nullopt;
  const std::string state = text_of(object, "state");
  if (state == "started") {
    const auto pid = object.find("pid");
    const bool numbered = pid != object.end() && pid->is_number_unsigned();
    return AgentStarted{numbered ? pid->get<std::uint32_t>() : 0};
  }
  if (state == "dialing") return AgentDialing{text_of(object, "address")};
  if (state == "welcomed") return AgentWelcomed{};
  if (state == "tunnel") return AgentTunnel{};
  if (state == "notice") return HostNotice{text_of(object, "sentence")};
  if (state != "failed") return std::nullopt;
  return StartFailed{cause_named(text_of(object, "cause")), "", text_of(object, "sentence")};
}

}  // namespace

Cause cause_named(std::string_view name) {
  for (int number = 0; number <= static_cast<int>(Cause::cancelled); ++number) {
    const auto cause = static_cast<Cause>(number);
    if (name == to_string(cause)) return cause;
  }
  return Cause::agent_failed;
}

std::vector<Word> RemoteTalk::take(std::string_view bytes) {
  std::vector<Word> words;
  while (!bytes.empty() && !broken_ && !tunnel_) {
    const auto newline = bytes.find('\n');
    line_ += bytes.substr(0, newline);
    if (line_.size() > (begun_ ? kTalkLineBytesMax : kNoiseBytesMax)) {
      fail("a line without an end came from the host", words);
      break;
    }
    if (newline == std::string_view::npos) break;
    bytes.remove_prefix(newline + 1);
    take_line(to_utf8(line_), words);
    line_.clear();
  }
  if (tunnel_) rest_ += bytes;
  return words;
}

void RemoteTalk::take_line(std::string_view line, std::vector<Word>& words) {
  if (!begun_) {
    begun_ = line == magic_line_;
    if (begun_) return;
    noise_bytes_ += line.size() + 1;
    if (noise_.size() < kNoiseKeptBytes)
      noise_ += std::string(cut_utf8(line, kNoiseKeptBytes)) + " ";
    if (noise_bytes_ > kNoiseBytesMax) fail("login scripts print without an end", words);
    return;
  }
  if (line.empty()) return;
  const auto word = line.starts_with('{') ? word_of_agent(line) : word_of_script(line);
  if (word) {
    tunnel_ = std::holds_alternative<AgentTunnel>(*word);
    words.push_back(*word);
  } else {
    fail("the host said \"" + std::string(cut_utf8(line, kNoiseKeptBytes)) + "\"", words);
  }
}

void RemoteTalk::fail(std::string detail, std::vector<Word>& words) {
  broken_ = true;
  words.push_back(StartFailed{Cause::agent_failed, "", std::move(detail)});
}

}  // namespace dlaunch::launcher::launch
