// Compares what hosts report of the files that the job needs.
#pragma once

#include <map>
#include <string>

#include "protocol/agent_wire.pb.h"

namespace dlaunch::launcher::controller {

/// The first host that reports a file sets what the others are compared with.
class Preflight {
 public:
  struct Verdict {
    bool fit = true;
    bool by_files = false;  ///< a needed file or directory is missing there or differs
    std::string sentence;
  };
  /// `gpus`: how many the host must have.
  [[nodiscard]] Verdict judge(const std::string& host, const protocol::Ready& ready,
                              std::uint32_t gpus = 0);

 private:
  struct Reference {
    std::string host;
    protocol::FileFact fact;
  };
  std::map<std::string, Reference> references_;
};

}  // namespace dlaunch::launcher::controller
