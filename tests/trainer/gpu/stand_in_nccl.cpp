#include "tests/trainer/gpu/stand_in_nccl.h"

#include <nccl.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "tests/trainer/gpu/stand_in.h"

using dlaunch::comm::stand_in;

namespace {

using Bytes = std::vector<std::byte>;

/// Communicators with the same id.
struct World {
  std::size_t size = 0;
  std::size_t come = 0;
  std::map<std::uint64_t, std::map<int, Bytes>> given;  ///< by operation and rank
};

std::map<std::uint64_t, std::shared_ptr<World>>& worlds() {
  static std::map<std::uint64_t, std::shared_ptr<World>> all;
  return all;
}

std::uint64_t number_of(const ncclUniqueId& id) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  return number;
}

float float_at(const Bytes& bytes, std::size_t index, ncclDataType_t type) {
  if (type == ncclBfloat16) {
    std::uint16_t half = 0;
    std::memcpy(&half, bytes.data() + index * 2, sizeof half);
    return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
  float value = 0;
  std::memcpy(&value, bytes.data() + index * 4, sizeof value);
  return value;
}

void put_float(std::byte* bytes, std::size_t index, float value, ncclDataType_t type) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto half = static_cast<std::uint16_t>(bits >> 16);
  if (type == ncclBfloat16) {
    std::memcpy(bytes + index * 2, &half, sizeof half);
  } else {
    std::memcpy(bytes + index * 4, &bits, sizeof bits);
  }
}

int group_depth = 0;  // guarded by the mutex
std::atomic<int> aborts_outside_group{0};

}  // namespace

struct ncclComm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::uint64_t operations = 0;
  std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
};

namespace {

/// `write` gets what all ranks have given, once they have.
ncclResult_t collective(ncclComm_t communicator, cudaStream_t stream, const void* from,
                        std::size_t bytes, std::function<void(const std::map<int, Bytes>&)> write) {
  const std::lock_guard lock(stand_in().mutex);
  const auto* begin = static_cast<const std::byte*>(from);
  stream->operations.push_back([=, world = communicator->world, rank = communicator->rank,
                                ended = communicator->ended, number = ++communicator->operations,
                                write = std::move(write), has_given = false]() mutable {
    if (*ended) return true;
    auto& given = world->given[number];
    if (!has_given) given[rank] = Bytes(begin, begin + bytes);
    has_given = true;
    if (given.size() < world->size) return false;
    write(given);
    return true;
  });
  return ncclSuccess;
}

void sum(const std::map<int, Bytes>& given, std::size_t begin, std::size_t count,
         ncclDataType_t type, void* to) {
  for (std::size_t index = 0; index < count; ++index) {
    float total = 0;
    for (const auto& [rank, bytes] : given) total += float_at(bytes, begin + index, type);
    put_float(static_cast<std::byte*>(to), index, total, type);
  }
}

std::size_t size_of(ncclDataType_t type) { return type == ncclBfloat16 ? 2 : 4; }

}  // namespace

namespace dlaunch::comm {

int aborts_one_by_one() { return aborts_outside_group; }

}  // namespace dlaunch::comm

extern "C" {

const char* ncclGetErrorString(ncclResult_t /*result*/) { return "an error of the stand-in"; }

const char* ncclGetLastError(ncclComm_t /*communicator*/) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<std::uint64_t> newest{0};
  const std::uint64_t number = ++newest;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  const std::lock_guard lock(stand_in().mutex);
  auto& world = worlds()[number_of(id)];
  if (!world) world = std::make_shared<World>();
  world->size = static_cast<std::size_t>(ranks);
  ++world->come;
  auto made = std::make_unique<ncclComm>();
  made->world = world;
  made->rank = rank;
  *communicator = made.release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  const std::lock_guard lock(stand_in().mutex);
  const World& world = *communicator->world;
  *state = world.come < world.size ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  const std::lock_guard lock(stand_in().mutex);
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const std::lock_guard lock(stand_in().mutex);
  --group_depth;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const std::lock_guard lock(stand_in().mutex);
  if (group_depth == 0) ++aborts_outside_group;
  *communicator->ended = true;
  std::unique_ptr<ncclComm>{communicator}.reset();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t /*operation*/, ncclComm_t communicator,
                           cudaStream_t stream) {
  return collective(communicator, stream, from, count * size_of(type),
                    [=](const auto& given) { sum(given, 0, count, type, to); });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t /*operation*/, ncclComm_t communicator,
                               cudaStream_t stream) {
  const std::size_t begin = static_cast<std::size_t>(communicator->rank) * count;
  return collective(communicator, stream, from, count * communicator->world->size * size_of(type),
                    [=](const auto& given) { sum(given, begin, count, type, to); });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  return collective(communicator, stream, from, bytes, [=](const auto& given) {
    auto* place = static_cast<std::byte*>(to);
    for (const auto& [rank, part] : given) {
      std::memcpy(place + static_cast<std::size_t>(rank) * bytes, part.data(), bytes);
    }
  });
}

}  // extern "C"
