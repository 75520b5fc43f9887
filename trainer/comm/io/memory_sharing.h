// Turns the connections between ranks of one host into links through shared memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "trainer/comm/failure.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/comm/io/link.h"

namespace dlaunch::comm {

/// By rank; this rank's own is nullptr.
using Links = std::vector<std::unique_ptr<Link>>;

struct SharedLinks {
  Links links;
  std::string sentence;  ///< how many neighbours share memory, and why not the others
};

/// Offers memory to each higher neighbour and opens what each lower one offers; the link to a rank
/// that cannot have it (another container, no memory) stays as it is. Every rank of the mesh must
/// call it; `willing` false refuses all, which the others accept.
[[nodiscard]] CommResult<SharedLinks> share_memory(Rank self, Links links,
                                                   std::span<const Rank> neighbours, bool willing,
                                                   std::shared_ptr<AbortFlag> abort,
                                                   milliseconds limit);

}  // namespace dlaunch::comm
