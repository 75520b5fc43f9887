// Real agents on this machine: planting, workers, sweeping, restarts, the end.
#include "supervisor/host/io/agent_process.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "base/io/files.h"
#include "tests/supervisor/host/io/field.h"

namespace dlaunch::supervisor::host {
namespace {

using protocol::AgentFrame;

constexpr const char* kStay = "exec tail -f /dev/null";

/// The process that wrote its number into `path`.
pid_t pid_in(const std::string& path) {
  return static_cast<pid_t>(std::atoi(read_file(path, 32).value_or("0").c_str()));
}

TEST(AgentBinary, NeedsNoLibraryOfItsHost) {
  if (!kAgentIsStatic) GTEST_SKIP() << "this build is for sanitizers";
  const auto content = read_file(DLAUNCH_AGENT, 1 << 16);
  ASSERT_TRUE(content);
  Elf64_Ehdr header{};
  std::memcpy(&header, content->data(), sizeof(header));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const auto at = header.e_phoff + static_cast<std::size_t>(i) * header.e_phentsize;
    std::memcpy(&part, content->data() + at, sizeof(part));
    EXPECT_NE(part.p_type, static_cast<Elf64_Word>(PT_INTERP)) << "it asks for a dynamic loader";
    EXPECT_NE(part.p_type, static_cast<Elf64_Word>(PT_DYNAMIC)) << "it names shared libraries";
  }
}

TEST(Plant, LeavesOnceItsAgentIsWelcomed) {
  Field field;
  field.bring_up(shell_job(kStay));
  const auto* hello = field.last(AgentFrame::kHello);
  EXPECT_EQ(hello->hello().name(), "here1");
  EXPECT_EQ(hello->job(), field.job());
  const auto& facts = field.last(AgentFrame::kReady)->ready().facts();
  EXPECT_EQ(facts.data_address(), "127.0.0.1");
  EXPECT_GE(facts.workers(), 1U);
  EXPECT_EQ(facts.scratch(), field.place());
  EXPECT_EQ(field.last(AgentFrame::kReady)->ready().failures_size(), 0);
}

TEST(Plant, KeepsTheSecretOutOfSight) {
  Field field;
  field.bring_up(shell_job(kStay));
  field.run_program(1);
  for (const auto pid : {field.holder(), field.agent()}) {
    const auto base = "/proc/" + std::to_string(pid);
    const auto words = read_file(base + "/cmdline", 1 << 16).value_or("");
    EXPECT_NE(words.find("--job" + std::string(1, '\0') + field.job()), std::string::npos) << words;
    EXPECT_NE(words.find("here1"), std::string::npos);
    EXPECT_EQ(words.find(field.key_hex()), std::string::npos);
    const auto environment = read_file(base + "/environ", 1 << 20).value_or("");
    EXPECT_EQ(environment.find(field.key_hex()), std::string::npos);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(field.place())) {
    struct stat status {};
    ASSERT_EQ(::lstat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0077U, 0U) << entry.path();
    if (!entry.is_regular_file()) continue;
    const auto content = read_file(entry.path(), 1 << 20).value_or("");
    EXPECT_EQ(content.find(field.key_hex()), std::string::npos) << entry.path();
  }
}

TEST(Plant, SaysThatItCannotDialBackAndLeavesNothing) {
  Field field;
  const auto port = field.port();
  field.close();
  const auto began = monotonic_now();
  const auto one =
      field.plant({{"addresses", nlohmann::json::array({address_of(port)})}, {"control", "dial"}});
  ASSERT_TRUE(field.until([&] { return one->ended; }));
  EXPECT_LT(monotonic_now() - began, 10s);
  const auto failed = one->line("failed");
  ASSERT_TRUE(failed.is_object()) << one->output;
  EXPECT_EQ(failed.at("cause"), "cannot_dial_back");
  const std::string sentence = failed.at("sentence");
  EXPECT_NE(sentence.find("127.0.0.1 port " + std::to_string(port)), std::string::npos);
  EXPECT_NE(sentence.find("refused"), std::string::npos) << sentence;
  const pid_t holder = one->line("started").at("pid");
  EXPECT_TRUE(field.until([&] { return !lives(holder); }));
}

TEST(Plant, RefusesAForeignDirectory) {
  Field field;
  const auto scratch = field.directory() + "/dlaunch-0";
  std::filesystem::create_directory(scratch);
  ::chmod(scratch.c_str(), 0755);
  const auto one = field.plant();
  ASSERT_TRUE(field.until([&] { return one->ended; }));
  EXPECT_EQ(one->line("failed").at("cause"), "scratch_foreign") << one->output;
}

TEST(Plant, TakesOverFromAnOlderAgentOfTheSameJobAndHost) {
  Field field;
  field.bring_up(shell_job(std::string("echo $$ > ") + field.directory() + "/pid; " + kStay));
  field.run_program(1);
  const auto old_holder = field.holder();
  const auto old_agent = field.agent();
  ASSERT_TRUE(field.until([&] { return pid_in(field.directory() + "/pid") > 0; }));
  const auto worker = pid_in(field.directory() + "/pid");
  const auto one = field.plant();
  ASSERT_TRUE(field.until([&] { return one->ended; }));
  ASSERT_TRUE(one->line("welcomed").is_object()) << one->output;
  field.adopt(one->line("started").at("pid"));
  EXPECT_FALSE(lives(old_holder));
  EXPECT_FALSE(lives(old_agent));
  EXPECT_FALSE(lives(worker));
  EXPECT_NE(field.agent(), old_agent);
}

TEST(Plant, TakesNothingOverWhenNobodyWaitsForItAnyMore) {
  Field field;
  field.bring_up(shell_job(std::string("echo $$ > ") + field.directory() + "/pid; " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(field.directory() + "/pid") > 0; }));
  const auto one = field.plant();
  one->input.reset();  // the agent has come back by itself, and the launcher has let go
  ASSERT_TRUE(field.until([&] { return one->ended; }));
  ASSERT_TRUE(one->line("failed").is_object()) << one->output;
  EXPECT_EQ(one->line("failed").at("cause"), "agent_failed");
  EXPECT_TRUE(lives(field.agent()));
  EXPECT_TRUE(lives(pid_in(field.directory() + "/pid")));
}

TEST(Workers, HaveTheirEnvironmentAndTheirOutputComesHere) {
  Field field;
  field.bring_up(
      shell_job("echo rank=$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT; echo bad >&2; "
                "printf unfinished; " +
                std::string(kStay)));
  field.run_program(1, 2);
  const auto port = field.last(AgentFrame::kPrepared)->prepared().endpoints(0).port();
  const auto expected = "rank=1 of 2 at 127.0.0.1:" + std::to_string(port) + "\n";
  EXPECT_TRUE(field.until([&] { return field.output().find(expected) != std::string::npos; }))
      << field.output();
  EXPECT_TRUE(field.until([&] {
    const auto file = read_file(field.place() + "/logs/generation-1/rank-1.log", 4096).value_or("");
    return file.find(expected) != std::string::npos && file.find("bad\n") != std::string::npos &&
           file.find("unfinished") != std::string::npos;
  }));
}

TEST(Workers, AreReportedWithinMillisecondsWhenTheyEnd) {
  Field field;
  field.bring_up(shell_job("echo $$ > " + field.directory() + "/pid; echo last words; " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return field.output().find("last words") != std::string::npos; }));
  const auto began = monotonic_now();
  ::kill(pid_in(field.directory() + "/pid"), SIGKILL);
  ASSERT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  EXPECT_LT(monotonic_now() - began, 1s);
  const auto& exited = field.last(AgentFrame::kEvidence)->evidence().worker_exited();
  EXPECT_EQ(exited.signal(), SIGKILL);
  ASSERT_GE(exited.last_lines_size(), 1);
  EXPECT_EQ(exited.last_lines(exited.last_lines_size() - 1), "last words");
  EXPECT_FALSE(exited.ordered());
}

TEST(Workers, TellTheirExitCodeAndWhatTheyLeftInTheErrorFile) {
  Field field;
  field.bring_up(shell_job(
      R"(printf '{"message": {"message": "no data"}}' > $TORCHELASTIC_ERROR_FILE; exit 3)"));
  field.run_program(1);
  ASSERT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  const auto& exited = field.last(AgentFrame::kEvidence)->evidence().worker_exited();
  EXPECT_EQ(exited.code(), 3);
  EXPECT_EQ(exited.error_message(), "no data");
}

TEST(Workers, MayNestTheirErrorFileAsDeepAsTheyLike) {
  Field field;
  field.bring_up(
      shell_job(R"(head -c 60000 /dev/zero | tr '\0' '[' > $TORCHELASTIC_ERROR_FILE; exit 3)"));
  field.run_program(1);
  ASSERT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  const auto& exited = field.last(AgentFrame::kEvidence)->evidence().worker_exited();
  EXPECT_EQ(exited.code(), 3);
  EXPECT_TRUE(exited.error_message().starts_with("[[["));
}

TEST(Workers, EndedForWantOfMemoryAreSaidToBe) {
  Field field;
  const auto group = "/sys/fs/cgroup/memory/" + field.job();
  std::error_code code;
  if (::geteuid() != 0 || !std::filesystem::create_directory(group, code)) {
    GTEST_SKIP() << "only root may bound the memory of a group, where there is version 1";
  }
  std::ofstream(group + "/memory.limit_in_bytes") << (16 << 20);
  field.bring_up(shell_job("echo $$ > " + group + "/cgroup.procs; exec tail /dev/zero"));
  field.run_program(1);
  EXPECT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  std::filesystem::remove(group, code);
  EXPECT_FALSE(code) << code.message();
  const auto& exited = field.last(AgentFrame::kEvidence)->evidence().worker_exited();
  EXPECT_EQ(exited.signal(), SIGKILL);
  EXPECT_TRUE(exited.out_of_memory());
}

TEST(Workers, ThatCannotBeExecutedAreAFinding) {
  Field field;
  protocol::JobSpec spec;
  spec.add_command("/nowhere/train");
  field.bring_up(spec);
  EXPECT_EQ(field.last(AgentFrame::kReady)->ready().failures_size(), 1);
  field.prepare(1);
  ASSERT_TRUE(field.comes(AgentFrame::kPrepared, 1));
  field.send(1, [&](auto& frame) { field.assign_as_prepared(*frame.mutable_assign()); });
  ASSERT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  const auto& finding = field.last(AgentFrame::kEvidence)->evidence().finding();
  EXPECT_EQ(finding.kind(), "spawn_failed");
  EXPECT_NE(finding.sentence().find("/nowhere/train"), std::string::npos);
}

TEST(Sweep, EndsGrandchildrenInSessionsOfTheirOwnAndNothingElse) {
  Field field;
  const auto base = field.directory();
  // One grandchild keeps the job's environment, one has thrown it away.
  field.bring_up(shell_job("setsid sh -c 'echo $$ > " + base + "/far; exec tail -f /dev/null' & " +
                           "env -i setsid sh -c 'echo $$ > " + base +
                           "/bare; exec /usr/bin/tail -f /dev/null' & " + kStay));
  const auto stranger = [&](const std::string& job, const std::string& host) {
    const auto job_word = "DLAUNCH_JOB=" + job;
    const auto host_word = "DLAUNCH_HOST=" + host;
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setenv("DLAUNCH_JOB", job.c_str(), 1);
      ::setenv("DLAUNCH_HOST", host.c_str(), 1);
      ::execlp("tail", "tail", "-f", "/dev/null", nullptr);
      ::_exit(127);
    }
    return pid;
  };
  const auto other_job = stranger(field.job() + "0", "here1");
  const auto other_host = stranger(field.job(), "here12");
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(base + "/far") > 0 && pid_in(base + "/bare") > 0; }));
  field.send(1, [](auto& frame) { frame.mutable_abort()->set_reason("test"); });
  ASSERT_TRUE(field.comes(AgentFrame::kWorkersGone, 1)) << field.log();
  EXPECT_EQ(field.last(AgentFrame::kAbortAcknowledged)->generation(), 1U);
  EXPECT_FALSE(lives(pid_in(base + "/far")));
  EXPECT_FALSE(lives(pid_in(base + "/bare")));
  for (const auto pid : {other_job, other_host}) {
    EXPECT_TRUE(lives(pid));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

TEST(Sweep, WhatDoesNotDieIsLookedForUntilItIsGone) {
  Field field;
  const auto group = "/sys/fs/cgroup/freezer/" + field.job();
  std::error_code code;
  if (::geteuid() != 0 || !std::filesystem::create_directory(group, code)) {
    GTEST_SKIP() << "only root may freeze a group, where there is version 1";
  }
  field.bring_up(shell_job("echo $$ > " + field.directory() + "/pid; " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(field.directory() + "/pid") > 0; }));
  const auto pid = pid_in(field.directory() + "/pid");
  std::ofstream(group + "/cgroup.procs") << pid;
  std::ofstream(group + "/freezer.state") << "FROZEN";
  field.send(1, [](auto& frame) { frame.mutable_abort()->set_reason("test"); });
  EXPECT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  const auto* evidence = field.last(AgentFrame::kEvidence);
  const auto sentence = evidence == nullptr ? "" : evidence->evidence().finding().sentence();
  EXPECT_NE(sentence.find(std::to_string(pid)), std::string::npos) << sentence;
  const auto* gone = field.last(AgentFrame::kWorkersGone);
  EXPECT_TRUE(gone == nullptr || gone->generation() < 1);
  std::ofstream(group + "/freezer.state") << "THAWED";
  EXPECT_TRUE(field.comes(AgentFrame::kWorkersGone, 1)) << field.log();
  EXPECT_TRUE(field.until([&] { return std::filesystem::remove(group, code); })) << code.message();
  field.run_program(2);
}

TEST(Workers, TheirLastWordsArriveWhateverBytesTheyAre) {
  Field field;
  field.bring_up(
      shell_job("printf '\\377\\nGr\\374\\337e\\n'; i=0; while [ $i -lt 200 ]; do "
                "printf '\\342\\226\\210'; i=$((i+1)); done; exit 3"));
  field.run_program(1);
  ASSERT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  const auto exited = field.last(AgentFrame::kEvidence)->evidence().worker_exited();
  EXPECT_EQ(exited.code(), 3);
  ASSERT_EQ(exited.last_lines_size(), 3);
  EXPECT_EQ(exited.last_lines(0), "\uFFFD");
  EXPECT_EQ(exited.last_lines(1), "Gr\uFFFD\uFFFDe");
  EXPECT_EQ(exited.last_lines(2).size(), 510U);
  EXPECT_EQ(field.closed, 0U);
}

TEST(Holder, StartsAKilledAgentAgainAndTheOldWorkersAreGone) {
  Field field;
  const auto base = field.directory();
  field.bring_up(shell_job("echo $$ > " + base + "/pid; setsid sh -c 'echo $$ > " + base +
                           "/far; exec tail -f /dev/null' & " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(base + "/far") > 0 && pid_in(base + "/pid") > 0; }));
  const auto old = *field.last(AgentFrame::kHello);
  ::kill(field.agent(), SIGKILL);
  ASSERT_TRUE(field.until([&] {
    return field.last(AgentFrame::kHello)->hello().agent() != old.hello().agent();
  })) << field.log();
  EXPECT_TRUE(lives(field.holder()));
  EXPECT_EQ(field.last(AgentFrame::kHello)->hello().workers_size(), 0);
  EXPECT_TRUE(
      field.until([&] { return !lives(pid_in(base + "/pid")) && !lives(pid_in(base + "/far")); }));
  field.run_program(2);
}

TEST(Holder, KillsAnAgentThatDoesNotLeaveWhenItIsTold) {
  Field field;
  field.bring_up(shell_job("echo $$ > " + field.directory() + "/pid; " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(field.directory() + "/pid") > 0; }));
  const auto agent = field.agent();
  ::kill(agent, SIGSTOP);  // for all that can be seen of it, it hangs
  ::kill(field.holder(), SIGTERM);
  EXPECT_TRUE(field.until([&] { return !lives(field.holder()); }, 60s)) << field.log();
  EXPECT_FALSE(lives(agent));
  EXPECT_FALSE(lives(pid_in(field.directory() + "/pid")));
}

TEST(Holder, ItsDeathEndsTheJobOnThisHost) {
  Field field;
  field.bring_up(shell_job("echo $$ > " + field.directory() + "/pid; " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(field.directory() + "/pid") > 0; }));
  const auto agent = field.agent();
  ::kill(field.holder(), SIGKILL);
  EXPECT_TRUE(field.until([&] { return !lives(agent); })) << field.log();
  EXPECT_FALSE(lives(pid_in(field.directory() + "/pid")));
  EXPECT_NE(field.last(AgentFrame::kLeft), nullptr);
}

TEST(End, LeavesNothingBehind) {
  Field field;
  const auto base = field.directory();
  field.bring_up(
      shell_job("setsid sh -c 'echo $$ > " + base + "/far; exec tail -f /dev/null' & " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(base + "/far") > 0; }));
  field.send(0, [](auto& frame) { frame.mutable_leave()->set_reason("the job is over"); });
  ASSERT_TRUE(field.comes(AgentFrame::kLeft, 0)) << field.log();
  EXPECT_FALSE(lives(pid_in(base + "/far")));
  EXPECT_TRUE(field.until([&] { return !lives(field.holder()); })) << field.log();
  EXPECT_FALSE(lives(field.agent()));
  for (const auto& entry : std::filesystem::directory_iterator(field.place())) {
    EXPECT_FALSE(entry.is_socket()) << entry.path();
  }
}

TEST(Lease, EndsTheJobWhenTheControllerIsGone) {
  Field field;
  field.lease_ms = 1500;
  field.bring_up(shell_job("echo $$ > " + field.directory() + "/pid; " + kStay));
  field.run_program(1);
  ASSERT_TRUE(field.until([&] { return pid_in(field.directory() + "/pid") > 0; }));
  const auto agent = field.agent();
  field.close();
  EXPECT_TRUE(field.until([&] { return !lives(field.holder()); })) << field.log();
  EXPECT_FALSE(lives(agent));
  EXPECT_FALSE(lives(pid_in(field.directory() + "/pid")));
}

}  // namespace
}  // namespace dlaunch::supervisor::host
