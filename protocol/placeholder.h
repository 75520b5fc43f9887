// What an agent replaces in each argument of a program: ${rank} and its kind.
#pragma once

#include <array>
#include <string_view>

namespace dlaunch::protocol {

enum class Placeholder { rank, local_rank, world_size, local_world_size, host, generation, job };

struct PlaceholderName {
  Placeholder placeholder;
  std::string_view name;  ///< between the braces
};
constexpr std::array<PlaceholderName, 7> kPlaceholders = {{
    {Placeholder::rank, "rank"},
    {Placeholder::local_rank, "local_rank"},
    {Placeholder::world_size, "world_size"},
    {Placeholder::local_world_size, "local_world_size"},
    {Placeholder::host, "host"},
    {Placeholder::generation, "generation"},
    {Placeholder::job, "job"},
}};

}  // namespace dlaunch::protocol
