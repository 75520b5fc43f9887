// What the last lines of a program's output say about why it ended.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "supervisor/job/cause.h"

namespace dlaunch::supervisor::job {

/// One known phrase and what it means.
struct Signature {
  const char* phrase = "";  ///< compared without regard to case
  const char* cause = "";  ///< docs/states.md; empty: the phrase only says that it is a consequence
  Weight weight = Weight::ended;
};

/// The most explaining signature that any of the lines has; nullptr: none is known. Phrases are
/// those of CUDA, NCCL, Gloo, PyTorch and the C library, as found in public logs.
[[nodiscard]] const Signature* find_signature(std::span<const std::string> lines);

/// All of them, the most explaining first.
[[nodiscard]] std::span<const Signature> signatures();

}  // namespace dlaunch::supervisor::job
