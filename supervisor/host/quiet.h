// How a simulation spares an agent the heartbeats that would say nothing new.
#pragma once

#include "base/time.h"

namespace dlaunch::supervisor::host {

/// The heartbeats of an undisturbed stretch at once: none of ours is due before `until`, and frames
/// of the controller have come, or will come, up to just `heard`. Said again, it replaces what was
/// said before.
struct QuietUntil {
  Instant until;
  Instant heard;
};

}  // namespace dlaunch::supervisor::host
