// What a run leaves on disk: read back, after a kill, by a second one, and on a full disk.
#include "launcher/controller/io/run_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>

#include "launcher/controller/io/event_log.h"
#include "launcher/controller/io/metrics.h"
#include "launcher/controller/io/run_files.h"
#include "launcher/controller/io/state_lock.h"
#include "launcher/controller/io/store_writer.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::launcher::controller {
namespace {

using testing::HasSubstr;

RunOwner owner() { return {"login1", "boot-1", 4242}; }

EventRow event(std::uint64_t id, const std::string& name) {
  EventRow row;
  row.id = id;
  row.time = 1000.5;
  row.mono_ns = 77;
  row.event = name;
  row.generation = 3;
  return row;
}

RunStore open_store(const std::string& directory) {
  auto store = RunStore::open(directory);
  EXPECT_TRUE(store) << store.error().text();
  return std::move(*store);
}

TEST(RunStore, TheFirstStartMakesASecretAndTheNextOnesKeepIt) {
  const TemporaryDirectory directory;
  rendezvous::Secret secret{};
  for (std::uint64_t i = 1; i <= 3; ++i) {
    auto store = open_store(directory.text());
    const auto start = store.begin(owner());
    ASSERT_TRUE(start) << start.error().text();
    EXPECT_EQ(start->incarnation, Incarnation{i});
    if (i == 1) secret = start->secret;
    EXPECT_EQ(start->secret, secret);
    EXPECT_EQ(start->port, i == 1 ? std::nullopt : std::optional<std::uint16_t>(29700));
    ASSERT_TRUE(store.set_port(29700));
  }
}

TEST(RunStore, FilesAreReadableByTheirOwnerOnly) {
  const TemporaryDirectory directory;
  auto store = open_store(directory.text());
  ASSERT_TRUE(store.begin(owner()));
  for (const auto* name : {"/run.db", "/run.db-wal", "/metrics.db"}) {
    struct stat info {};
    ASSERT_EQ(::stat((directory.text() + name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777U, 0600U) << name;
  }
}

TEST(RunStore, ReadsBackWhatWasWritten) {
  const TemporaryDirectory directory;
  auto store = open_store(directory.text());
  ASSERT_TRUE(store.begin(owner()));
  auto full = event(1, "worker_exited");
  full.host = "gpu01";
  full.rank = 5;
  full.step = 812;
  full.detail = "signal 9";
  ASSERT_TRUE(store.write({full, event(2, "host_ready"), IncidentRow{1, "{\"id\":1}"},
                           IncidentRow{1, "{\"id\":1,\"closed\":true}"}, StatusRow{5, "{}"},
                           StatusRow{6, "{\"state\":\"running\"}"}, CheckpointRow{20, 7},
                           MetricRow{8, 20, 2.5, 100, 0.1, {}}, EndRow{75, "stopped", 9}}));

  auto reader = RunReader::open(directory.text());
  ASSERT_TRUE(reader) << reader.error().text();
  const auto events = reader->events(0, 100);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ((*events)[0].host, "gpu01");
  EXPECT_EQ((*events)[0].rank, 5);
  EXPECT_EQ((*events)[0].step, 812);
  EXPECT_EQ((*events)[0].detail, "signal 9");
  EXPECT_EQ((*events)[1].host, std::nullopt);
  EXPECT_EQ(reader->events(1, 100)->at(0).event, "host_ready");
  EXPECT_EQ(reader->events(0, 1)->size(), 1U);
  EXPECT_EQ(reader->incidents()->at(0).json, "{\"id\":1,\"closed\":true}");
  EXPECT_EQ((*reader->status())->json, "{\"state\":\"running\"}");
  EXPECT_EQ((*reader->end())->code, 75);
  EXPECT_EQ(reader->owner()->pid, 4242);
}

TEST(Metrics, AreReadBackAsMeansOfEqualStretchesOfTime) {
  const TemporaryDirectory directory;
  auto store = open_store(directory.text());
  std::vector<Row> rows;
  for (int i = 0; i < 100; ++i) {
    MetricRow row{100.0 + i, static_cast<std::uint64_t>(i), 100.0 - i, 50, 0.5, {}};
    if (i >= 30) row.figures.validation_loss = i < 70 ? 7 : 6;
    if (i >= 30) row.figures.validation_step = Step{i < 70 ? 30U : 70U};
    rows.emplace_back(row);
  }
  ASSERT_TRUE(store.write(rows));
  auto database = Sqlite::open(directory.text() + "/metrics.db", Sqlite::Mode::read);
  ASSERT_TRUE(database);
  const auto buckets = read_metrics(*database, 2);
  ASSERT_TRUE(buckets) << buckets.error().text();
  ASSERT_EQ(buckets->size(), 2U);
  EXPECT_EQ((*buckets)[0].step, 49U);
  EXPECT_EQ((*buckets)[0].loss, 75.5);
  EXPECT_EQ((*buckets)[1].time, 199);
  EXPECT_EQ((*buckets)[1].step_seconds, 0.5);
  const auto validations = read_validations(*database, 10);
  ASSERT_EQ(validations->size(), 2U) << "no mean of two";
  EXPECT_EQ((*validations)[0].time, 130);
  EXPECT_EQ((*validations)[0].loss, 7);
  EXPECT_EQ((*validations)[1].loss, 6);
  EXPECT_EQ(read_validations(*database, 1)->at(0).loss, 6) << "the newest";
}

TEST(Metrics, AFileOfAnOlderDlaunchGetsTheColumnsItLacks) {
  const TemporaryDirectory directory;
  const auto path = directory.text() + "/metrics.db";
  {
    auto old = Sqlite::open(path, Sqlite::Mode::write);
    ASSERT_TRUE(old);
    ASSERT_TRUE(
        old->execute("CREATE TABLE steps(time REAL NOT NULL, step INTEGER NOT NULL, "
                     "loss REAL, tokens_per_second REAL NOT NULL, step_seconds REAL NOT "
                     "NULL); INSERT INTO steps VALUES (1, 1, 3, 10, 1)"));
    ASSERT_EQ(read_metrics(*old, 5)->size(), 1U) << "it is read as it is";
    EXPECT_TRUE(read_validations(*old, 5)->empty());
  }
  auto store = open_store(directory.text());
  MetricRow row{2, 2, 2.5, 10, 1, {}};
  row.figures.gradient_norm = 0.5;
  ASSERT_TRUE(store.write({row}));
  auto database = Sqlite::open(path, Sqlite::Mode::read);
  ASSERT_TRUE(database);
  auto norms = database->prepare("SELECT gradient_norm FROM steps ORDER BY step");
  ASSERT_TRUE(norms);
  ASSERT_TRUE(*norms->step());
  EXPECT_TRUE(norms->is_null(0));
  ASSERT_TRUE(*norms->step());
  EXPECT_EQ(norms->real(0), 0.5);
}

TEST(RunStore, AnotherStartTakesTheEndBackAndRecoversTheJournal) {
  const TemporaryDirectory directory;
  {
    auto store = open_store(directory.text());
    ASSERT_TRUE(store.begin(owner()));
    ASSERT_TRUE(store.write({JournalRow{1, "generation", R"({"generation":4,"best_step":7})"},
                             JournalRow{2, "committing", R"({"step":20,"generation":4})"},
                             JournalRow{3, "committed", R"({"step":20,"best_step":23})"},
                             JournalRow{4, "stopping", "{}"}, IncidentRow{2, "{}"}, event(9, "x"),
                             EndRow{75, "stopped", 9}}));
  }
  auto store = open_store(directory.text());
  const auto start = store.begin(owner());
  ASSERT_TRUE(start);
  EXPECT_EQ(start->recovered.last_generation, Generation{4});
  EXPECT_EQ(start->recovered.disk_steps, std::vector{Step{20}});
  EXPECT_EQ(start->recovered.best_step, Step{23});
  EXPECT_EQ(start->recovered.incidents, 2U);
  EXPECT_FALSE(start->recovered.stopping);
  EXPECT_EQ(start->last_event_id, 9U);
  EXPECT_TRUE(start->resumed);
  ASSERT_EQ(start->incidents.size(), 1U);
  EXPECT_EQ(start->incidents[0].id, 2U);
  EXPECT_EQ(*RunReader::open(directory.text())->end(), std::nullopt);
}

TEST(RunStore, TakesRowsOfTheNewestIncarnationOnly) {
  const TemporaryDirectory directory;
  auto older = open_store(directory.text());
  ASSERT_TRUE(older.begin(owner()));
  ASSERT_TRUE(older.write({event(1, "host_ready")}));
  auto newer = open_store(directory.text());
  ASSERT_TRUE(newer.begin(owner()));
  const auto refused = older.write({event(2, "host_lost")});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("newer controller of this job, incarnation 2"));
  EXPECT_TRUE(newer.write({event(2, "host_back")}));
}

TEST(RunStore, AnEndThatTheKeeperWroteLeavesTheGenerationToBeAdopted) {
  const TemporaryDirectory directory;
  {
    auto store = open_store(directory.text());
    ASSERT_TRUE(store.begin(owner()));
    ASSERT_TRUE(store.write({JournalRow{1, "generation", R"({"generation":4,"members":[
        {"host":"a","id":0,"first_rank":0,"workers":2,"data_address":"10.0.0.1"}],"seats":[0]})"},
                             JournalRow{2, "running", R"({"generation":4})"},
                             EndRow{70, "the controller died", 9}}));
  }
  auto store = open_store(directory.text());
  const auto start = store.begin(owner());
  ASSERT_TRUE(start);
  EXPECT_FALSE(start->resumed);
  ASSERT_TRUE(start->recovered.plan);
  EXPECT_EQ(start->recovered.plan->world_size, 2U);
  EXPECT_TRUE(start->recovered.went);
  EXPECT_TRUE(start->same_clock);
}

TEST(RunStore, AResumedJobIsNotStoppingAnyMore) {
  const auto recovered = recover({{1, "stopping", "{}"},
                                  {2, "ended", R"({"code":75})"},
                                  {3, "newer kind", "not JSON"},
                                  {0, "resumed", "{}"}},
                                 0);
  EXPECT_FALSE(recovered.stopping);
  EXPECT_FALSE(recovered.ended);
}

TEST(RunStore, ASchemaOfAnotherDlaunchIsRefusedInWords) {
  const TemporaryDirectory directory;
  {
    auto store = open_store(directory.text());
    ASSERT_TRUE(store.begin(owner()));
    auto raw = Sqlite::open(directory.text() + "/run.db", Sqlite::Mode::write);
    ASSERT_TRUE(raw->execute("UPDATE meta SET value = '99' WHERE key = 'schema'"));
  }
  auto store = open_store(directory.text());
  const auto start = store.begin(owner());
  ASSERT_FALSE(start);
  EXPECT_THAT(start.error().text(), HasSubstr("schema 99"));
}

TEST(RunStore, WhatWasWrittenSurvivesAKillAtAnyMoment) {
  const TemporaryDirectory directory;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto store = RunStore::open(directory.text());
    if (!store || !store->begin(owner())) ::_exit(1);
    for (std::uint64_t ticket = 1;; ++ticket) {
      if (!store->write({JournalRow{ticket, "generation",
                                    "{\"generation\":" + std::to_string(ticket) + "}"}})) {
        ::_exit(2);
      }
      if (::write(ends[1], &ticket, sizeof(ticket)) < 0) ::_exit(3);
    }
  }
  std::uint64_t told = 0;
  while (told < 20) ASSERT_GT(::read(ends[0], &told, sizeof(told)), 0);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ends[1]);
  for (std::uint64_t more = 0; ::read(ends[0], &more, sizeof(more)) > 0;) told = more;
  ::close(ends[0]);
  auto store = open_store(directory.text());
  const auto start = store.begin(owner());
  ASSERT_TRUE(start);
  EXPECT_GE(start->recovered.last_generation.value, told);
  EXPECT_LE(start->recovered.last_generation.value, told + 1);
  EXPECT_EQ(start->incarnation, Incarnation{2});
}

TEST(StateLock, ASecondOneIsToldWhoHasItAndADeadOneHoldsNothing) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(is_locked(directory.text(), kControllerLock));
  {
    const auto lock = StateLock::take(directory.text(), kControllerLock);
    ASSERT_TRUE(lock);
    EXPECT_TRUE(is_locked(directory.text(), kControllerLock));
    const auto second = StateLock::take(directory.text(), kControllerLock);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().text(), HasSubstr("pid " + std::to_string(::getpid())));
    EXPECT_TRUE(StateLock::take(directory.text(), kKeeperLock)) << "another lock";
  }
  EXPECT_TRUE(StateLock::take(directory.text(), kControllerLock));
}

/// Collects what the writer's thread says.
struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::uint64_t> tickets;
  std::vector<std::string> failures;
  int well = 0;

  StoreWriter::Handlers handlers() {
    return {[this](const std::vector<std::uint64_t>& written) {
              const std::lock_guard lock(mutex);
              tickets.insert(tickets.end(), written.begin(), written.end());
              changed.notify_all();
            },
            [this](const std::string& sentence) {
              const std::lock_guard lock(mutex);
              failures.push_back(sentence);
              changed.notify_all();
            },
            [this] {
              const std::lock_guard lock(mutex);
              ++well;
              changed.notify_all();
            }};
  }
  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 30s, condition);
  }
};

TEST(StoreWriter, ReportsTicketsInOrderOnceTheyAreOnDisk) {
  const TemporaryDirectory directory;
  auto store = open_store(directory.text());
  ASSERT_TRUE(store.begin(owner()));
  Heard heard;
  {
    StoreWriter writer(std::move(store), heard.handlers());
    for (std::uint64_t ticket = 1; ticket <= 200; ++ticket) {
      writer.put(JournalRow{ticket, "generation", "{}"});
    }

    ASSERT_TRUE(writer.flush(30s));
    ASSERT_TRUE(heard.wait([&] { return heard.tickets.size() == 200; }));
    for (std::uint64_t i = 0; i < 200; ++i) EXPECT_EQ(heard.tickets[i], i + 1);
    writer.put(StatusRow{1, "{}"});
  }
  EXPECT_TRUE(*RunReader::open(directory.text())->status()) << "the end writes what waits";
}

/// Mounts in a mount namespace of its own, where the kernel lets us.
bool mount_tiny_disk(const std::string& path) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=512k") == 0;
}

void write_on_a_full_disk(const std::string& path) {
  auto store = open_store(path);
  ASSERT_TRUE(store.begin(owner()));
  Heard heard;
  StoreWriter writer(std::move(store), heard.handlers());
  writer.put(JournalRow{1, "generation", "{}"});
  ASSERT_TRUE(writer.flush(30s));
  {
    std::ofstream filler(path + "/filler");
    for (int i = 0; i < 512 && filler; ++i) filler << std::string(1024, 'x') << std::flush;
  }
  writer.put(JournalRow{2, "generation", std::string(32 * 1024, ' ')});
  ASSERT_TRUE(heard.wait([&] { return !heard.failures.empty(); }));
  EXPECT_THAT(heard.failures[0], HasSubstr("decisions wait"));
  EXPECT_EQ(heard.tickets, std::vector<std::uint64_t>{1});
  writer.put(JournalRow{2, "generation", "asked for again while it waits"});
  std::filesystem::remove(path + "/filler");
  ASSERT_TRUE(heard.wait([&] { return heard.tickets.size() == 2; }));
  ASSERT_TRUE(writer.flush(30s));
  EXPECT_EQ(heard.tickets.size(), 2U);
  EXPECT_EQ(heard.well, 1);
}

TEST(StoreWriter, KeepsWhatAFullDiskRefusesAndGoesOnWhenThereIsRoom) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr int kNotAllowed = 77;
    if (!mount_tiny_disk(directory.text())) ::_exit(kNotAllowed);
    write_on_a_full_disk(directory.text());
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(EventLog, ServesTheNewestAndSaysWhereTheOlderOnesEnd) {
  EventLog log(2);
  EXPECT_EQ(log.first_kept(), 3U);
  EXPECT_EQ(log.add(event(0, "new")).id, 3U);
  EXPECT_EQ(log.add(event(0, "new")).id, 4U);
  EXPECT_EQ(log.first_kept(), 3U);
  EXPECT_EQ(log.after(2, 1).size(), 1U);
  EXPECT_EQ(log.after(2, 10).size(), 2U);
  EXPECT_EQ(log.after(3, 10).size(), 1U);
  EXPECT_TRUE(log.after(4, 10).empty());
  EXPECT_TRUE(log.after(99, 10).empty());
}

TEST(StoreWriter, ReadsOnItsOwnThreadWhatItHasWritten) {
  const TemporaryDirectory directory;
  auto store = open_store(directory.path());
  ASSERT_TRUE(store.begin(owner()));
  StoreWriter writer(std::move(store), {[](const auto&) {}, [](const auto&) {}, [] {}});
  writer.put(event(1, "old"));
  writer.put(event(2, "older"));
  ASSERT_TRUE(writer.flush(30s));
  std::promise<std::vector<EventRow>> read;
  writer.read([&read](RunStore& own) { read.set_value(*own.events(1, 10)); });
  auto done = read.get_future();
  ASSERT_EQ(done.wait_for(30s), std::future_status::ready);
  const auto rows = done.get();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].event, "older");
}

/// As on a network file system, whose name the test cannot borrow.
class NetworkState : public testing::Test {
 protected:
  NetworkState() { ::setenv("DLAUNCH_NETWORK_STATE", "1", 1); }
  ~NetworkState() override { ::unsetenv("DLAUNCH_NETWORK_STATE"); }
  TemporaryDirectory directory_;
};

TEST_F(NetworkState, TheStatusLiesBesideRunDbBecauseNobodyElseMayReadThat) {
  auto store = open_store(directory_.path());
  EXPECT_THAT(store.notice(), HasSubstr("network file system"));
  ASSERT_TRUE(store.begin(owner()));
  EXPECT_EQ(read_status_snapshot(directory_.path()), std::nullopt);
  ASSERT_TRUE(store.write({StatusRow{5, R"({"state":"running"})"}, event(1, "host_ready")}));
  EXPECT_EQ(read_status_snapshot(directory_.path()), R"({"state":"running"})");
  EXPECT_FALSE(RunReader::open(directory_.path())) << "the writer never lets go of its lock";
  EXPECT_EQ(store.events(0, 10)->size(), 1U) << "but reads itself";
}

TEST_F(NetworkState, TheEnvironmentCanAlsoSayThatItIsNone) {
  ::setenv("DLAUNCH_NETWORK_STATE", "0", 1);
  EXPECT_EQ(open_store(directory_.path()).notice(), "");
}

TEST(RunFiles, KeepTheOutputOfTheFirstFailureAndOfTheNewestGenerations) {
  const TemporaryDirectory directory;
  auto store = open_store(directory.path());
  ASSERT_TRUE(store.begin(owner()));
  for (std::uint64_t generation = 3; generation <= 20; ++generation) {
    auto piece = std::make_shared<OutputChunk>();
    piece->generation = Generation{generation};
    piece->host_name = "gpu01";
    piece->text = "broken \xff byte\n";
    ASSERT_TRUE(store.write({OutputRow{Generation{generation}, {piece}}}));
  }
  const auto kept = output_generations(directory.path());
  ASSERT_EQ(kept.size(), kOutputGenerationsMax + 1);
  EXPECT_EQ(kept.front(), Generation{3});
  EXPECT_EQ(kept[1], Generation{13});
  EXPECT_EQ(kept.back(), Generation{20});
  struct stat info {};
  ASSERT_EQ(::stat(output_path(directory.path(), Generation{20}).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(StateLock, TellsWhereItsOwnerRunsAlsoAfterIt) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(lock_owner(directory.path(), kControllerLock));
  {
    const auto lock = StateLock::take(directory.path(), kControllerLock);
    ASSERT_TRUE(lock);
  }
  const auto owner = lock_owner(directory.path(), kControllerLock);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, ::getpid());
  EXPECT_EQ(owner->host, host_name());
}

}  // namespace
}  // namespace dlaunch::launcher::controller
