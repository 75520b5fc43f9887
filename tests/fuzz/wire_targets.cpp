// Frames of the wire and lines of workers and planters.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "launcher/launch/remote_talk.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/bootstrap.h"
#include "protocol/endpoints.h"
#include "protocol/framing.h"
#include "protocol/limits.h"
#include "protocol/wire_text.h"
#include "protocol/worker_message.h"
#include "tests/fuzz/target.h"

namespace dlaunch::fuzz {
namespace {

/// Every whole message; the last is empty where the reader refused what came.
template <class Reader>
std::vector<std::string> read_all(Reader& reader, std::string_view bytes, std::size_t piece) {
  std::vector<std::string> messages;
  for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
    reader.feed(bytes.substr(begin, piece));
    while (true) {
      auto next = reader.next();
      if (!next) {
        messages.emplace_back();
        return messages;
      }
      if (!*next) break;
      messages.push_back(std::move(**next));
    }
  }
  return messages;
}

/// The same by `cut`, which mostly copies nothing.
std::vector<std::string> cut_all(std::string_view bytes, std::size_t piece) {
  protocol::FrameReader reader(protocol::kHelloBytesMax);
  std::vector<std::string> messages;
  for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
    auto part = bytes.substr(begin, piece);
    while (true) {
      const auto next = reader.cut(part);
      if (!next) {
        messages.emplace_back();
        return messages;
      }
      if (!*next) break;
      messages.emplace_back(**next);
    }
    DL_CHECK(part.empty(), "what comes is taken");
  }
  return messages;
}

template <class Frame>
void frames(std::string_view bytes) {
  protocol::FrameReader whole(protocol::kHelloBytesMax), pieces(protocol::kHelloBytesMax);
  const auto messages = read_all(whole, bytes, std::max<std::size_t>(bytes.size(), 1));
  DL_CHECK(messages == read_all(pieces, bytes, 3), "frames do not depend on how bytes arrive");
  for (const auto piece : std::to_array<std::size_t>({1, 3, 7, 1 << 20})) {
    DL_CHECK(messages == cut_all(bytes, piece), "nor on how they are cut");
  }
  for (const auto& message : messages) {
    Frame frame;
    if (!frame.ParseFromString(message)) continue;
    protocol::make_text_valid(frame);
    Frame again;
    DL_CHECK(again.ParseFromString(frame.SerializeAsString()), "what was read can be sent on");
  }
}

template <class Parse>
void lines(std::string_view bytes, Parse parse) {
  protocol::LineReader reader;
  for (const auto& line : read_all(reader, bytes, std::max<std::size_t>(bytes.size(), 1))) {
    const auto message = parse(line);
    if (!message || !*message) continue;
    const auto said = protocol::format_line(**message);
    if (!said) continue;  // longer than a line may be
    const auto again = parse(std::string_view(*said).substr(0, said->size() - 1));
    DL_CHECK(again && *again, "what was read can be said");
    DL_CHECK(protocol::format_line(**again) == *said, "and means the same");
  }
}

}  // namespace

void agent_frames(std::string_view bytes) { frames<protocol::AgentFrame>(bytes); }
void controller_frames(std::string_view bytes) { frames<protocol::ControllerFrame>(bytes); }
void endpoints(std::string_view bytes) {
  protocol::Endpoints packed;
  if (!packed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const protocol::EndpointList held{Generation{1},
                                    {{"10.0.0.1", 4000},
                                     {"10.0.0.1", 4001},
                                     {"fd00::2", 4000},
                                     {"gpu03", 4000},
                                     {"10.0.0.4", 4000}}};
  const auto ranks = protocol::unpack_endpoints(packed, held);
  if (!ranks) {
    DL_CHECK(!ranks.error().text().empty(), "a refusal has a reason");
    return;
  }
  DL_CHECK(ranks->size() <= protocol::kRanksMax, "the number of ranks is bounded");
  const auto whole = protocol::unpack_endpoints(protocol::pack_endpoints(*ranks), {});
  DL_CHECK(whole && *whole == *ranks, "a list survives its packing");
  const auto changed = protocol::unpack_endpoints(protocol::pack_endpoints(*ranks, held), held);
  DL_CHECK(changed && *changed == *ranks, "and so it does as changes of another");
}

void worker_lines(std::string_view bytes) { lines(bytes, protocol::parse_worker_line); }
void agent_lines(std::string_view bytes) { lines(bytes, protocol::parse_agent_line); }

void bootstrap_line(std::string_view bytes) {
  const auto bootstrap = protocol::parse_bootstrap(std::string(bytes));
  if (!bootstrap) {
    DL_CHECK(!bootstrap.error().text().empty(), "a refusal has a reason");
    return;
  }
  const auto line = protocol::to_line(*bootstrap);
  const auto again = protocol::parse_bootstrap(line);
  DL_CHECK(again && protocol::to_line(*again) == line, "a bootstrap survives its line");
}

void remote_talk(std::string_view bytes) {
  launcher::launch::RemoteTalk whole("magic"), pieces("magic");
  const auto words = whole.take(bytes);
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += 3) {
    count += pieces.take(bytes.substr(begin, 3)).size();
  }
  DL_CHECK(count == words.size(), "words do not depend on how bytes arrive");
  DL_CHECK(whole.noise() == pieces.noise(), "nor does noise");
}

}  // namespace dlaunch::fuzz
