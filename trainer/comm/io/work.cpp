#include "trainer/comm/io/work.h"

#include "base/overloaded.h"

namespace dlaunch::comm {
namespace {

/// FNV-1a, a number at a time: finds mistakes, withstands nobody.
class Shape {
 public:
  Shape& add(std::uint64_t number) {
    hash_ = (hash_ ^ number) * 0x100000001b3ULL;
    return *this;
  }
  Shape& add(const Partition& partition) {
    for (std::uint32_t rank = 0; rank < partition.world_size(); ++rank) {
      add(partition.of(Rank{rank}).size());
      for (const auto& range : partition.of(Rank{rank})) add(range.first).add(range.count);
    }
    return *this;
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace

bool is_collective(const Work& work) {
  return !std::holds_alternative<SendMessage>(work) &&
         !std::holds_alternative<ReceiveMessage>(work);
}

Operation operation_of(const Work& work) {
  return std::visit(Overloaded{
                        [](const AllReduce&) { return Operation::all_reduce; },
                        [](const ReduceScatter&) { return Operation::reduce_scatter; },
                        [](const AllGather&) { return Operation::all_gather; },
                        [](const ReduceScalars&) { return Operation::scalars; },
                        [](const Broadcast&) { return Operation::broadcast; },
                        [](const Barrier&) { return Operation::barrier; },
                        [](const AllToAll&) { return Operation::all_to_all; },
                        [](const SendMessage&) { return Operation::message; },
                        [](const ReceiveMessage&) { return Operation::message; },
                    },
                    work);
}

std::uint64_t bytes_of(const Work& work) {
  return std::visit(
      Overloaded{
          [](const AllReduce& reduce) { return std::uint64_t{reduce.buffer.size_bytes()}; },
          [](const ReduceScatter& reduce) {
            return std::uint64_t{reduce.partition->total() * sizeof(float)};
          },
          [](const AllGather& gather) {
            return std::uint64_t{gather.partition->total() * sizeof(float)};
          },
          [](const ReduceScalars& scalars) {
            return std::uint64_t{scalars.mine->sums.size() * sizeof(double)};
          },
          [](const Broadcast& broadcast) { return std::uint64_t{broadcast.bytes.size()}; },
          [](const Barrier&) { return std::uint64_t{0}; },
          [](const AllToAll&) { return std::uint64_t{0}; },
          [](const SendMessage& message) { return std::uint64_t{message.bytes.size()}; },
          [](const ReceiveMessage& message) { return std::uint64_t{message.bytes.size()}; },
      },
      work);
}

std::uint64_t shape_of(const Work& work) {
  Shape shape;
  std::visit(Overloaded{
                 [&](const ReduceScatter& reduce) { shape.add(*reduce.partition); },
                 [&](const AllGather& gather) { shape.add(*gather.partition); },
                 [&](const Broadcast& broadcast) { shape.add(broadcast.root.value); },
                 [](const auto&) {},
             },
             work);
  return shape.value();
}

}  // namespace dlaunch::comm
