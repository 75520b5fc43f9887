// What tests of the coordinator ask of its answers.
#pragma once

#include <variant>
#include <vector>

#include "rendezvous/command.h"

namespace dlaunch::rendezvous {

/// The commands of one kind, in order.
template <class T>
std::vector<T> of(const std::vector<Command>& commands) {
  std::vector<T> found;
  for (const auto& command : commands) {
    if (const auto* wanted = std::get_if<T>(&command)) found.push_back(*wanted);
  }
  return found;
}

}  // namespace dlaunch::rendezvous
