// dlaunch-trainer: started by the agent, one process per rank; by hand it only makes token files.
#include <csignal>
#include <cstdio>
#include <span>
#include <string_view>

#include "base/io/descriptor_limit.h"
#include "trainer/data/io/write_tokens.h"
#include "trainer/exit_code.h"
#include "trainer/io/agent_link.h"
#include "trainer/io/environment.h"
#include "trainer/io/machine.h"
#include "trainer/model/io/device.h"
#include "trainer/worker.h"

namespace dlaunch::trainer {
namespace {

constexpr const char* kUsage =
    "usage: dlaunch-trainer --write-tokens OUT.bin --text IN.txt\n"
    "       dlaunch-trainer --write-tokens OUT.bin --tokens IN.bin|IN.idx\n"
    "Writes a token file of llm.c's format: of the bytes of a text, or of the ids of a file of\n"
    "llm.c, nanoGPT (bare uint16) or Megatron (its .idx, with the .bin beside it).\n"
    "To train, start it by dlaunch: dlaunch train.toml\n";

int run_by_hand(std::span<char* const> words) {
  if (words.size() == 1 &&
      (words[0] == std::string_view("-h") || words[0] == std::string_view("--help"))) {
    std::fputs(kUsage, stdout);
    return kExitFinished;
  }
  const auto is = [&](std::size_t at, std::string_view word) { return words[at] == word; };
  if (words.size() != 4 || !is(0, "--write-tokens") || !(is(2, "--text") || is(2, "--tokens"))) {
    std::fputs(kUsage, stderr);
    return kExitUsage;
  }
  DataSettings from;
  (is(2, "--text") ? from.text : from.tokens) = words[3];
  const auto written = write_tokens(from, words[1]);
  if (!written) {
    std::fprintf(stderr, "dlaunch-trainer: %s\n", written.error().text().c_str());
    return kExitFailed;
  }
  std::printf("%s\n", written->c_str());
  return kExitFinished;
}

int run_for_agent() {
  keep_freed_memory();
  allow_many_descriptors();
  prepare_environment_for_devices();
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that is gone is no reason to stop
  const auto environment = read_environment();
  if (!environment) {
    std::fprintf(stderr,
                 "dlaunch-trainer: %s\nIt is started by dlaunch, not by hand: dlaunch train.toml\n",
                 environment.error().text().c_str());
    return kExitUsage;
  }
  Mailbox mailbox(environment->generation);
  const auto link = AgentLink::connect(environment->socket, mailbox);
  if (!link) {
    std::fprintf(stderr, "dlaunch-trainer: %s\n", link.error().text().c_str());
    return kExitFailed;
  }
  return run_worker(*environment, mailbox, **link);
}

}  // namespace
}  // namespace dlaunch::trainer

int main(int count, char** words) {
  using namespace dlaunch::trainer;
  if (count > 1) return run_by_hand(std::span(words + 1, static_cast<std::size_t>(count - 1)));
  return run_for_agent();
}
