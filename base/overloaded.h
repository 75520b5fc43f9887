// One lambda per alternative for std::visit.
#pragma once

namespace dlaunch {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace dlaunch
