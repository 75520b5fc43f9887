#include "supervisor/job/incident_book.h"

#include <gtest/gtest.h>

namespace dlaunch::supervisor::job {
namespace {

Instant at(milliseconds since) { return Instant{} + 1h + since; }

Happening happening(const char* cause, Weight weight, Instant happened_at, std::uint32_t rank = 0) {
  Happening h;
  h.cause = cause;
  h.weight = weight;
  h.what = std::string(cause) + " of rank " + std::to_string(rank);
  h.happened_at = happened_at;
  h.host = HostId{rank};
  h.rank = Rank{rank};
  return h;
}

TEST(IncidentBook, PhasesAddUpToTheTotal) {
  IncidentBook book(4);
  book.add(happening("host_lost", Weight::host_fact, at(0ms)), Generation{2}, at(600ms));
  EXPECT_EQ(book.present().id, 5U);
  book.aborted(at(650ms));
  book.replaced(at(700ms));
  book.regrouped(at(900ms));
  book.restored(at(1200ms), 3);
  book.close(at(2000ms));
  const auto& incident = book.present();
  const auto& s = incident.seconds;
  EXPECT_DOUBLE_EQ(s.detect, 0.6);
  EXPECT_DOUBLE_EQ(s.abort, 0.05);
  EXPECT_DOUBLE_EQ(s.replace, 0.05);
  EXPECT_DOUBLE_EQ(s.regroup, 0.2);
  EXPECT_DOUBLE_EQ(s.restore, 0.3);
  EXPECT_DOUBLE_EQ(s.first_step, 0.8);
  EXPECT_DOUBLE_EQ(s.total, 2.0);
  EXPECT_EQ(incident.lost_steps, 3U);
  EXPECT_TRUE(incident.closed);
  EXPECT_FALSE(book.is_open());
}

TEST(IncidentBook, PhasesAddUpAlsoAfterASecondFault) {
  IncidentBook book(0);
  book.add(happening("worker_crashed", Weight::ended, at(0ms)), Generation{1}, at(10ms));
  book.aborted(at(20ms));
  book.replaced(at(30ms));
  book.regrouped(at(40ms));
  book.begin_round();
  book.add(happening("worker_crashed", Weight::ended, at(50ms), 1), Generation{2}, at(60ms));
  book.aborted(at(70ms));
  book.replaced(at(80ms));
  book.regrouped(at(90ms));
  book.restored(at(100ms), 0);
  book.close(at(110ms));
  const auto& s = book.present().seconds;
  EXPECT_NEAR(s.detect + s.abort + s.replace + s.regroup + s.restore + s.first_step, s.total, 1e-9);
  EXPECT_NEAR(s.total, 0.11, 1e-9);
  EXPECT_EQ(book.present().generation, Generation{1});
}

TEST(IncidentBook, EachRoundHasItsOwnCauseTheIncidentTheStrongest) {
  IncidentBook book(0);
  book.begin_round();
  book.add(happening("host_lost", Weight::host_fact, at(0ms)), Generation{1}, at(0ms));
  EXPECT_FALSE(book.judge());
  book.begin_round();
  book.add(happening("program_failed", Weight::ended, at(9ms), 1), Generation{2}, at(9ms));
  EXPECT_FALSE(book.judge()) << "what is shown stays";
  EXPECT_EQ(book.cause().cause, "program_failed");
  EXPECT_EQ(book.present().cause, "host_lost");
  book.verdict("stop", "the job stops");
  EXPECT_EQ(book.present().cause, "program_failed") << "why the job ends";
}

TEST(IncidentBook, ShowsTheVerdictThatReachesFurthest) {
  IncidentBook book(0);
  book.add(happening("host_lost", Weight::host_fact, at(0ms)), Generation{1}, at(0ms));
  book.verdict("replace_host", "s takes the ranks of b");
  book.verdict("restart_workers", "the workers are restarted");
  EXPECT_EQ(book.present().verdict, "replace_host");
  EXPECT_EQ(book.present().sentence, "host_lost of rank 0; the workers are restarted");
}

TEST(IncidentBook, AnEndWithoutAFirstStepCountsNoTimeForIt) {
  IncidentBook book(0);
  book.add(happening("host_lost", Weight::host_fact, at(0ms)), Generation{1}, at(0ms));
  book.aborted(at(10ms));
  book.give_up(at(100'000ms));
  EXPECT_DOUBLE_EQ(book.present().seconds.first_step, 0);
  EXPECT_DOUBLE_EQ(book.present().seconds.total, 0.01);
}

TEST(IncidentBook, KeepsABoundedNumber) {
  IncidentBook book(0);
  for (std::size_t i = 0; i < IncidentBook::kIncidentsKept + 5; ++i) {
    book.add(happening("worker_crashed", Weight::ended, at(0ms)), Generation{i + 1}, at(0ms));
    book.close(at(1ms));
  }
  EXPECT_EQ(book.all().size(), IncidentBook::kIncidentsKept);
  EXPECT_EQ(book.all().front().id, 6U);
  EXPECT_EQ(book.count(), IncidentBook::kIncidentsKept + 5);
}

}  // namespace
}  // namespace dlaunch::supervisor::job
