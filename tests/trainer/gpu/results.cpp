// Collectives of one rank give back what went in; copies change no byte.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/gpu/one_rank.h"

namespace dlaunch::comm {
namespace {

constexpr std::size_t kCounts[] = {1, 1000, 1'048'579};

/// bf16 values are the upper halves of fp32 ones.
std::vector<std::byte> values_of(std::size_t count, DeviceType type) {
  std::vector<std::byte> bytes(count * bytes_of(type));
  for (std::size_t index = 0; index < count; ++index) {
    const float value = static_cast<float>(index % 997) - 498.0F;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    std::byte* place = bytes.data() + index * bytes_of(type);
    if (type == DeviceType::fp32) {
      std::memcpy(place, &bits, sizeof bits);
    } else {
      std::memcpy(place, &half, sizeof half);
    }
  }
  return bytes;
}

struct Bench {
  OneRank one;
  Staging staging;
};

CommResult<Bench> open_bench() {
  auto one = open_one_rank();
  if (!one) return tl::unexpected(one.error());
  auto staging = Staging::open(one->session);
  if (!staging) return tl::unexpected(staging.error());
  return Bench{std::move(*one), std::move(*staging)};
}

/// Takes `values` to the device, works on them, and compares what comes back.
template <class Work>
Problem round_trip(Bench& bench, std::size_t count, DeviceType type, Work work) {
  const auto device = DeviceMemory::allocate(count, type);
  if (!device) return problem_of(device);
  const auto sent = values_of(count, type);
  if (auto copied = bench.staging.to_device(sent, device->span()); !copied) {
    return problem_of(copied);
  }
  const CommResult<DeviceSpan> worked = work(device->span());
  if (!worked) return problem_of(worked);
  std::vector<std::byte> come(sent.size());
  if (auto copied = bench.staging.from_device(*worked, come); !copied) return problem_of(copied);
  if (come == sent) return {};
  return std::to_string(count) + " values came back changed";
}

Problem each_count(DeviceType type, const auto& start) {
  auto bench = open_bench();
  if (!bench) return problem_of(bench);
  for (const std::size_t count : kCounts) {
    const auto result = DeviceMemory::allocate(count, type);
    if (!result) return problem_of(result);
    const auto work = [&](DeviceSpan values) {
      const auto ticket = start(*bench->one.group, values, result->span());
      return ticket.and_then([&](Ticket begun) { return bench->one.group->wait(begun); }).map([&] {
        return result->span();
      });
    };
    if (auto problem = round_trip(*bench, count, type, work); !problem.empty()) return problem;
  }
  return {};
}

Problem all_reduce(DeviceType type) {
  auto bench = open_bench();
  if (!bench) return problem_of(bench);
  for (const std::size_t count : kCounts) {
    const auto work = [&](DeviceSpan values) {
      const auto ticket = bench->one.group->start_all_reduce(values);
      return ticket.and_then([&](Ticket begun) { return bench->one.group->wait(begun); }).map([&] {
        return values;
      });
    };
    if (auto problem = round_trip(*bench, count, type, work); !problem.empty()) return problem;
  }
  return {};
}

Problem reduce_scatter(DeviceType type) {
  return each_count(type, [](DeviceCommunicator& group, DeviceSpan from, DeviceSpan to) {
    return group.start_reduce_scatter(from, to);
  });
}

Problem all_gather(DeviceType type) {
  return each_count(type, [](DeviceCommunicator& group, DeviceSpan from, DeviceSpan to) {
    return group.start_all_gather(from, to);
  });
}

Problem init() {
  const auto one = open_one_rank();
  if (!one) return problem_of(one);
  return one->group->world_size() == 1 ? "" : "the world has another size";
}

Problem many_pending() {
  auto bench = open_bench();
  if (!bench) return problem_of(bench);
  return round_trip(*bench, 4096, DeviceType::fp32, [&](DeviceSpan values) {
    CommResult<Ticket> newest;
    for (int turn = 0; turn < 100; ++turn) {
      newest = bench->one.group->start_all_reduce(values);
      if (!newest) break;
    }
    return newest.and_then([&](Ticket begun) { return bench->one.group->wait(begun); }).map([&] {
      return values;
    });
  });
}

Problem staging() {
  auto bench = open_bench();
  if (!bench) return problem_of(bench);
  constexpr std::size_t kPiece = kStagingPieceBytes / 4;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1,
                                  2 * kPiece, 3 * kPiece + 5, 16 * kPiece}) {
    const auto problem = round_trip(*bench, count, DeviceType::fp32, [](DeviceSpan values) {
      return CommResult<DeviceSpan>(values);
    });
    if (!problem.empty()) return problem;
  }
  return {};
}

Problem second_group() {
  auto bench = open_bench();
  if (!bench) return problem_of(bench);
  const auto part = bench->one.mesh->split("replicas", [](Rank) { return 0U; });
  const auto group = NcclCommunicator::connect(bench->one.session, *part, "replicas");
  if (!group) return problem_of(group);
  return round_trip(*bench, 1000, DeviceType::fp32, [&](DeviceSpan values) {
    return bench->one.group->start_all_reduce(values)
        .and_then([&](Ticket) { return (*group)->start_all_reduce(values); })
        .and_then([&](Ticket begun) { return (*group)->wait(begun); })
        .map([&] { return values; });
  });
}

}  // namespace

std::vector<Check> result_checks() {
  std::vector<Check> checks{{"a world of one rank is connected", init},
                            {"staged copies change no byte at any size", staging}};
  for (const auto& [type, name] :
       {std::pair(DeviceType::fp32, "fp32"), {DeviceType::bf16, "bf16"}}) {
    const std::string suffix = std::string(" in ") + name;
    checks.push_back({"all-reduce is right" + suffix, [type] { return all_reduce(type); }});
    checks.push_back({"reduce-scatter is right" + suffix, [type] { return reduce_scatter(type); }});
    checks.push_back({"all-gather is right" + suffix, [type] { return all_gather(type); }});
  }
  checks.push_back({"a hundred operations may be under way", many_pending});
  checks.push_back({"two communicators take turns on one stream", second_group});
  return checks;
}

}  // namespace dlaunch::comm
