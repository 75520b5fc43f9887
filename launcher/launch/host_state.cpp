#include "launcher/launch/host_state.h"

namespace dlaunch::launcher::launch {
namespace {

struct Names {
  const char* operator()(const Idle&) const { return "idle"; }
  const char* operator()(const WaitingTurn&) const { return "waiting turn"; }
  const char* operator()(const Connecting&) const { return "connecting"; }
  const char* operator()(const Planting&) const { return "planting"; }
  const char* operator()(const WaitingForHello&) const { return "waiting for hello"; }
  const char* operator()(const Present&) const { return "planted"; }
  const char* operator()(const BackingOff&) const { return "backing off"; }
  const char* operator()(const Failed&) const { return "failed"; }
};

struct Due {
  template <class State>
  std::optional<Instant> operator()(const State& state) const {
    if constexpr (requires { state.due; }) {
      return state.due;
    } else {
      return std::nullopt;
    }
  }
};

}  // namespace

const char* name_of(const HostState& state) { return std::visit(Names{}, state); }

std::optional<Instant> due_of(const HostState& state) { return std::visit(Due{}, state); }

}  // namespace dlaunch::launcher::launch
