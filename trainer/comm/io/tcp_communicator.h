// The tcp back end: one thread that carries out the started operations in order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/io/collectives.h"
#include "trainer/comm/io/exchange.h"

namespace dlaunch::comm {

class TcpCommunicator final : public Communicator {
 public:
  /// `links[r]` leads to rank r, handshake done. `operation_limit` starts when the thread begins
  /// an operation.
  TcpCommunicator(Rank self, std::vector<Link> links, std::string group,
                  std::shared_ptr<AbortFlag> abort, milliseconds operation_limit);
  /// Ends what is in progress and closes the connections.
  ~TcpCommunicator() override;

  [[nodiscard]] Rank rank() const override { return exchange_.self(); }
  [[nodiscard]] std::uint32_t world_size() const override { return exchange_.world_size(); }
  [[nodiscard]] CommResult<Ticket> start_all_reduce(std::span<float> buffer) override;
  [[nodiscard]] CommResult<Ticket> start_reduce_scatter(std::span<float> buffer,
                                                        const Partition& partition) override;
  [[nodiscard]] CommResult<Ticket> start_all_gather(std::span<float> buffer,
                                                    const Partition& partition) override;
  [[nodiscard]] CommResult<void> wait(Ticket ticket) override;
  [[nodiscard]] CommResult<Scalars> all_reduce_scalars(const Scalars& mine) override;
  [[nodiscard]] CommResult<void> broadcast(Rank root, std::span<std::byte> bytes) override;
  [[nodiscard]] CommResult<void> barrier() override;
  [[nodiscard]] std::uint64_t bytes_sent() const override { return exchange_.bytes_sent(); }
  [[nodiscard]] double collective_seconds() const override { return recorder_.seconds(); }
  [[nodiscard]] CollectiveState collective_state() const override { return recorder_.state(); }
  [[nodiscard]] std::optional<CommFailure> failure() const override;

 private:
  struct AllReduce {
    std::span<float> buffer;
  };
  struct ReduceScalars {
    const Scalars* mine;
    Scalars* total;
  };
  struct Broadcast {
    Rank root;
    std::span<std::byte> bytes;
  };
  struct Barrier {};
  struct ReduceScatter {
    std::span<float> buffer;
    const Partition* partition;
  };
  struct AllGather {
    std::span<float> buffer;
    const Partition* partition;
  };
  using Work = std::variant<AllReduce, ReduceScalars, Broadcast, Barrier, ReduceScatter, AllGather>;

  [[nodiscard]] CommResult<Ticket> start(Work work);
  [[nodiscard]] static std::uint64_t bytes_of(const Work& work);
  [[nodiscard]] CommResult<void> carry_out(const Work& work, std::uint64_t sequence);
  void run();

  Exchange exchange_;
  Recorder recorder_;
  const std::shared_ptr<AbortFlag> abort_;
  const milliseconds operation_limit_;
  Scratch scratch_;  ///< of the thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> pending_;
  std::uint64_t started_ = 0;  ///< sequence of the newest operation started
  std::uint64_t done_ = 0;     ///< and of the newest one done
  bool closing_ = false;
  std::optional<CommFailure> failure_;
  std::thread thread_;
};

}  // namespace dlaunch::comm
