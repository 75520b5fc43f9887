// Why one step of planting did not work, before it becomes a sentence.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "launcher/launch/cause.h"

namespace dlaunch::launcher::io {

struct PlantFailure {
  launch::Cause cause = launch::Cause::agent_failed;
  std::string detail;   ///< in the words of the library or the remote side; may be empty
  std::string scratch;  ///< the directory concerned; may be empty
};

template <class T>
using Planting = tl::expected<T, PlantFailure>;

[[nodiscard]] inline tl::unexpected<PlantFailure> plant_failure(launch::Cause cause,
                                                                std::string detail) {
  return tl::unexpected<PlantFailure>(PlantFailure{cause, std::move(detail), ""});
}

}  // namespace dlaunch::launcher::io
