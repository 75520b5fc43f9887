// The last look at a frame before it is sent: proto3 refuses to read text that is no UTF-8.
#pragma once

#include "protocol/agent_wire.pb.h"

namespace dlaunch::protocol {

/// Replaces what is no UTF-8 in the texts of `message`, however deep they stand. One such byte
/// would make the whole frame unreadable, and what is sent until acknowledged would never arrive.
void make_text_valid(google::protobuf::Message& message);

}  // namespace dlaunch::protocol
