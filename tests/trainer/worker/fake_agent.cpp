#include "tests/trainer/worker/fake_agent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/io/files.h"
#include "trainer/checkpoint/io/loader.h"
#include "trainer/checkpoint/layout.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/io/clock.h"

namespace dlaunch::trainer {

namespace message = protocol::worker;

FakeWorker::FakeWorker(Generation generation, Rank rank, std::uint32_t world_size,
                       const std::filesystem::path& directory) {
  const auto name = "g" + std::to_string(generation.value) + "-r" + std::to_string(rank.value);
  output_ = directory / (name + ".log");
  const auto socket = (directory / (name + ".sock")).string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  DL_CHECK(socket.size() < sizeof address.sun_path, "the temporary directory's name is short");
  std::memcpy(address.sun_path, socket.data(), socket.size());
  listener_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  DL_CHECK(
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
          ::listen(listener_.get(), 1) == 0,
      "the worker socket can be made");
  start(generation, rank, world_size, socket);
}

void FakeWorker::start(Generation generation, Rank rank, std::uint32_t world_size,
                       const std::string& socket) {
  std::vector<std::string> variables{"PATH=/usr/bin:/bin",
                                     "DLAUNCH_SOCKET=" + socket,
                                     "DLAUNCH_JOB=job",
                                     "DLAUNCH_GENERATION=" + std::to_string(generation.value),
                                     "DLAUNCH_DATA_ADDRESS=127.0.0.1",
                                     "RANK=" + std::to_string(rank.value),
                                     "LOCAL_RANK=" + std::to_string(rank.value),
                                     "WORLD_SIZE=" + std::to_string(world_size),
                                     "LOCAL_WORLD_SIZE=" + std::to_string(world_size)};
  for (const char* name : {"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) variables.push_back(std::string(name) + "=" + value);
  }
  std::vector<char*> environment;
  for (const auto& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  const FileDescriptor log(
      ::open(output_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
  // A test that was copied to another machine names its trainer.
  const char* const elsewhere = std::getenv("DLAUNCH_TEST_TRAINER");
  std::array<char*, 2> arguments{
      const_cast<char*>(elsewhere != nullptr ? elsewhere : DLAUNCH_TRAINER_BINARY), nullptr};
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(log.get(), 1);
    ::dup2(log.get(), 2);
    ::execve(arguments[0], arguments.data(), environment.data());
    ::_exit(127);
  }
}

FakeWorker::~FakeWorker() {
  if (status_ || pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void FakeWorker::tell(Generation generation, protocol::AgentMessage::Body body) {
  const auto line = protocol::format_lines(protocol::AgentMessage{generation, std::move(body)});
  ASSERT_TRUE(line) << line.error().text();
  // A worker that has just died is no failure of the test's own.
  static_cast<void>(::send(connection_.get(), line->data(), line->size(), MSG_NOSIGNAL));
}

void FakeWorker::kill(int signal) const { ::kill(pid_, signal); }

std::uint64_t FakeWorker::step() const {
  const auto progress = last<message::Progress>();
  return progress ? progress->step.value : 0;
}

int FakeWorker::exit_code() const {
  return status_ && WIFEXITED(*status_) ? WEXITSTATUS(*status_) : -1;
}
int FakeWorker::exit_signal() const {
  return status_ && WIFSIGNALED(*status_) ? WTERMSIG(*status_) : 0;
}

std::string FakeWorker::output() const {
  std::ifstream file(output_);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool FakeWorker::look() {
  bool anything = false;
  if (connection_.get() < 0 && listener_.get() >= 0) {
    pollfd polled{listener_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0) {
      connection_ = FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      listener_ = FileDescriptor(-1);
      anything = true;
    }
  }
  std::array<char, 4096> bytes;
  while (connection_.get() >= 0) {
    const auto got = ::recv(connection_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) break;
    anything = true;
    if (got == 0) {
      close_socket();
      break;
    }
    reader_.feed({bytes.data(), static_cast<std::size_t>(got)});
    while (const auto line = reader_.next().value()) {
      const auto parsed = protocol::parse_worker_line(*line);
      EXPECT_TRUE(parsed && *parsed) << *line;
      if (parsed && *parsed) said_.push_back(**parsed);
    }
  }
  int status = 0;
  if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    status_ = status;
    anything = true;
  }
  return anything;
}

void FakeJob::start(std::uint32_t world_size, Generation generation) {
  generation_ = generation;
  workers_.clear();
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    workers_.push_back(
        std::make_unique<FakeWorker>(generation, Rank{rank}, world_size, directory_));
  }
  wait_until("all workers are parked", [this] { return all_said<message::Parked>(); });
}

void FakeJob::send_assign(Generation generation, std::optional<std::uint64_t> restore) {
  generation_ = generation;
  message::Assign assign;
  assign.job = "job";
  assign.group = "main";
  assign.incarnation = Incarnation{1};
  assign.world_size = static_cast<std::uint32_t>(workers_.size());
  // Another token for each generation, so that a wrong mesh cannot come up.
  assign.token = std::string(62, '0') + std::to_string(10 + generation.value);
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const auto ready = workers_[rank]->last<message::Ready>().value();
    assign.endpoints.push_back({Rank{rank}, ready.address, ready.port});
  }
  if (restore) {
    assign.restore = message::Restore{
        Step{*restore}, (checkpoints() / checkpoint::step_directory_name(Step{*restore})).string()};
  }
  assign.checkpoint_directory = checkpoints().string();
  assign.trainer = trainer_;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    assign.rank = Rank{rank};
    assign.local_rank = rank;
    workers_[rank]->tell(generation, assign);
  }
}

void FakeJob::assign(Generation generation, std::optional<std::uint64_t> restore) {
  send_assign(generation, restore);
  wait_until("all workers have restored", [&] {
    for (const auto& worker : workers_) {
      const auto& said = worker->said();
      const bool restored = std::ranges::any_of(said, [&](const auto& entry) {
        return entry.generation == generation &&
               std::holds_alternative<message::Restored>(entry.body);
      });
      if (!restored) return false;
    }
    return true;
  });
}

void FakeJob::tell_all(const protocol::AgentMessage::Body& body) {
  for (const auto& worker : workers_) worker->tell(generation_, body);
}

void FakeJob::run(std::uint32_t world_size, std::optional<std::uint64_t> restore) {
  start(world_size, Generation{generation_.value + 1});
  assign(generation_, restore);
  go();
  wait_all_ended();
}

void FakeJob::wait_all_ended() {
  wait_until("all workers have ended", [this] {
    return std::ranges::all_of(workers_, [](const auto& worker) { return worker->ended(); });
  });
}

void FakeJob::wait_until(const std::string& what, const std::function<bool()>& condition) {
  const auto deadline = trainer_now() + kSoon;
  while (true) {
    for (const auto& worker : workers_) worker->look();
    if (condition()) return;
    if (trainer_now() > deadline) {
      // The rest of the test rests on it.
      throw std::runtime_error("not in time: " + what + "\n" + all_output());
    }
    std::vector<pollfd> polled;
    for (const auto& worker : workers_) polled.push_back({worker->fd(), POLLIN, 0});
    // Ends of processes are seen by asking again, soon.
    ::poll(polled.data(), polled.size(), 20);
  }
}

std::string FakeJob::all_output() const {
  std::string all;
  for (const auto& worker : workers_) all += "---- output\n" + worker->output();
  return all;
}

void FakeJob::commit(std::uint64_t step) {
  std::vector<checkpoint::ManifestFile> files;
  for (const auto& worker : workers_) {
    for (const auto& written : worker->all<message::Written>()) {
      if (written.step.value == step) files.push_back({written.file, written.bytes, written.hash});
    }
  }
  ASSERT_EQ(files.size(), workers_.size()) << "of step " << step;
  const auto partial = checkpoints() / checkpoint::partial_directory_name(Step{step}, generation_);
  auto manifest = checkpoint::read_manifest(partial);
  ASSERT_TRUE(manifest) << manifest.error().text();
  manifest->files = files;
  ASSERT_TRUE(
      replace_file(partial / checkpoint::kManifestName, checkpoint::format_manifest(*manifest)));
  std::filesystem::rename(partial, checkpoints() / checkpoint::step_directory_name(Step{step}));
}

std::map<std::string, std::string> FakeJob::tensors(std::uint64_t step) const {
  const auto path = checkpoints() / checkpoint::step_directory_name(Step{step});
  std::map<std::string, std::string> contents;
  const auto manifest = checkpoint::read_manifest(path);
  EXPECT_TRUE(manifest) << manifest.error().text();
  if (!manifest) return contents;
  std::vector<checkpoint::TensorDestination> destinations;
  for (const auto& [name, tensor] : manifest->tensors) {
    auto& bytes = contents[name];
    bytes.resize(*checkpoint::bytes_of(tensor.dtype, tensor.shape));
    destinations.push_back({{name, tensor.dtype, tensor.shape},
                            0,
                            checkpoint::rows_of(tensor.shape),
                            std::as_writable_bytes(std::span(bytes))});
  }
  const auto loaded = checkpoint::load_checkpoint(path, destinations);
  EXPECT_TRUE(loaded) << loaded.error().text();
  return contents;
}

}  // namespace dlaunch::trainer
