// How communication fails: one kind for the program, one suspect for the supervisor, one sentence.
#pragma once

#include <optional>
#include <tl/expected.hpp>

#include "base/ids.h"
#include "base/result.h"

namespace dlaunch::comm {

enum class FailureKind {
  aborted,    ///< the generation was ended from outside; nobody here is to blame
  peer_lost,  ///< a rank closed its connection, died or left
  timed_out,  ///< a rank did not do its part within the limit
  mismatch,   ///< a rank is in another operation, or sent what cannot be
  local,      ///< this process: no socket, bad arguments, the communicator was closed
};

struct CommFailure {
  FailureKind kind{};
  Error error;                  ///< "rank 3 at 10.0.0.3:4000 closed the connection during …"
  std::optional<Rank> suspect;  ///< whose fault it seems; empty: nobody's or not known
};

template <class T>
using CommResult = tl::expected<T, CommFailure>;

}  // namespace dlaunch::comm
