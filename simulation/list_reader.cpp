#include "simulation/list_reader.h"

#include <utility>

namespace dlaunch::simulation {

Result<protocol::SharedEndpoints> ListReader::read(Generation generation, const Frame& frame,
                                                   const protocol::SharedEndpoints& held) {
  for (auto known = reads_.rbegin(); known != reads_.rend(); ++known) {
    if (known->frame == frame && known->held == held && known->generation == generation) {
      return known->list;
    }
  }
  auto list = protocol::read_endpoints(generation, frame->assign().endpoints(), held);
  for (const auto& known : reads_) {
    if (list && known.list && known.generation == generation &&
        (*known.list)->ranks == (*list)->ranks) {
      list = known.list;
    }
  }
  if (reads_.size() == kReadsKept) reads_.pop_front();
  return reads_.emplace_back(Read{generation, frame, held, std::move(list)}).list;
}

}  // namespace dlaunch::simulation
