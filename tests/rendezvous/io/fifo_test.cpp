#include "rendezvous/io/fifo.h"

#include <gtest/gtest.h>

#include <deque>

namespace dlaunch::rendezvous {
namespace {

TEST(Fifo, IsAQueueWhateverItsLength) {
  Fifo<int> fifo;
  std::deque<int> same;
  int next = 0;
  for (const auto& [in, out] : {std::pair{1, 1}, {40, 3}, {5, 30}, {100, 112}, {3, 2}, {0, 1}}) {
    for (int i = 0; i < in; ++i) {
      fifo.push_back(++next);
      same.push_back(next);
    }
    for (int i = 0; i < out; ++i) {
      ASSERT_EQ(fifo.front(), same.front());
      fifo.pop_front();
      same.pop_front();
    }
    ASSERT_EQ(fifo.size(), same.size());
    ASSERT_EQ(fifo.empty(), same.empty());
  }
}

}  // namespace
}  // namespace dlaunch::rendezvous
