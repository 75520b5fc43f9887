// Some ranks of a mesh that do collectives among themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace dlaunch::comm {

/// Cut out of a mesh by the same call on every rank, so nothing about it is ever sent.
struct Group {
  std::uint32_t number = 0;  ///< 0: all ranks of the mesh; then one per cut, on every rank the same
  std::string name;          ///< as in sentences and records
  std::vector<Rank> members;  ///< ranks of the mesh, in the group's order
  std::uint32_t self = 0;     ///< index of this rank in `members`

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
};

}  // namespace dlaunch::comm
