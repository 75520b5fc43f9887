// A worker that behaves as the trainer does on its socket, without a model: it takes steps until it
// is told to stop.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "protocol/worker_message.h"

namespace {

using namespace dlaunch;
namespace worker = protocol::worker;

int connect_to(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(socket, generic, sizeof(address)) == 0 ? socket : -1;
}

void say(int socket, Generation generation, protocol::WorkerMessage::Body body) {
  const auto line = protocol::format_line(protocol::WorkerMessage{generation, std::move(body)});
  if (!line || ::write(socket, line->data(), line->size()) < 0) std::exit(4);
}

}  // namespace

int main() {
  const int socket = connect_to(std::getenv("DLAUNCH_SOCKET"));
  if (socket < 0) return 5;
  const Generation generation{std::strtoull(std::getenv("DLAUNCH_GENERATION"), nullptr, 10)};
  const Rank rank{static_cast<std::uint32_t>(std::atoi(std::getenv("RANK")))};
  say(socket, generation, worker::Hello{1, rank, 0, static_cast<std::uint32_t>(::getpid())});
  say(socket, generation, worker::Ready{std::getenv("DLAUNCH_DATA_ADDRESS"), 4711});
  protocol::LineReader lines;
  std::size_t endpoints = 0;
  std::array<char, 4096> bytes{};
  for (ssize_t count = 0; (count = ::read(socket, bytes.data(), bytes.size())) > 0;) {
    lines.feed({bytes.data(), static_cast<std::size_t>(count)});
    for (auto line = lines.next(); line && *line; line = lines.next()) {
      const auto message = protocol::parse_agent_line(**line);
      if (!message || !*message) return 6;
      const auto& body = (*message)->body;
      if (const auto* part = std::get_if<worker::Endpoints>(&body)) {
        endpoints += part->endpoints.size();
      } else if (const auto* assign = std::get_if<worker::Assign>(&body)) {
        endpoints += assign->endpoints.size();
        if (std::exchange(endpoints, 0) != assign->world_size) return 8;
        say(socket, generation, worker::Connected{});
        say(socket, generation, worker::Restored{assign->restore ? assign->restore->step : Step{}});
      } else if (std::holds_alternative<worker::Go>(body)) {
        worker::Progress progress;
        progress.step = Step{1};
        progress.phase = "forward";
        progress.loss = 3.5;
        say(socket, generation, progress);
      } else if (std::holds_alternative<worker::Stop>(body)) {
        say(socket, generation, worker::Finished{Step{2}});
        return 0;
      } else if (std::holds_alternative<worker::Abort>(body)) {
        return 7;
      }
    }
  }
  return 0;
}
