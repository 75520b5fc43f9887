// Job ids: the job's name, when it was made, and four dice so that two starts never share one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher::cli {

/// "kjv-gpt-20261130-054512-1f3a"; `stamp` is "20261130-054512" (UTC: it never goes back, as a
/// local time does at the end of summer).
[[nodiscard]] std::string make_job_id(std::string_view name, std::string_view stamp,
                                      std::uint16_t dice);

/// The name within an id; nullopt: not an id of ours.
[[nodiscard]] std::optional<std::string> name_of(std::string_view id);

/// The id that `wanted` means among `ids`: the id itself, else the newest of that name; empty: the
/// newest of all. nullopt: none.
[[nodiscard]] std::optional<std::string> find_job(const std::vector<std::string>& ids,
                                                  std::string_view wanted);

/// The oldest first. All are ids of ours.
void sort_by_age(std::vector<std::string>& ids);

}  // namespace dlaunch::launcher::cli
