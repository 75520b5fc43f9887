// What a killed agent leaves in /tmp goes with the next one's end, and nobody else's does.
#include "supervisor/host/io/worker_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/io/file_descriptor.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::supervisor::host {
namespace {

using testing::StartsWith;

/// A socket as a killed agent leaves it.
void leave_socket(const std::string& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::ranges::copy(path, address.sun_path);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

std::string long_directory(const TemporaryDirectory& base, const std::string& name) {
  const auto path = base.text() + "/" + std::string(100, 'x') + "/" + name;
  std::filesystem::create_directories(path);
  return path;
}

TEST(WorkerSocket, LiesInTheAgentsDirectoryIfItsPathIsShortEnough) {
  EXPECT_EQ(worker_socket_path("/scratch/job/host", Generation{3}, Rank{12}),
            "/scratch/job/host/worker-3-12.sock");
  const std::string longer = "/" + std::string(100, 'x');
  EXPECT_THAT(worker_socket_path(longer, Generation{3}, Rank{12}), StartsWith("/tmp/.dlaunch-"));
  EXPECT_NE(worker_socket_path(longer, Generation{3}, Rank{12}),
            worker_socket_path(longer + "y", Generation{3}, Rank{12}));
}

TEST(WorkerSocket, WhatAKilledAgentLeftIsRemovedAndNothingElse) {
  const TemporaryDirectory base;
  const auto mine = long_directory(base, "mine"), other = long_directory(base, "other");
  const auto first = worker_socket_path(mine, Generation{1}, Rank{0});
  const auto second = worker_socket_path(mine, Generation{2}, Rank{1});
  const auto of_other = worker_socket_path(other, Generation{1}, Rank{0});
  const auto inside = base.text() + "/worker-1-0.sock";
  for (const auto& path : {first, second, of_other, inside}) leave_socket(path);
  std::ofstream(base.text() + "/pid") << "1";
  remove_sockets_of(mine);
  remove_sockets_of(base.text());
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_FALSE(std::filesystem::exists(second));
  EXPECT_FALSE(std::filesystem::exists(inside));
  EXPECT_TRUE(std::filesystem::exists(of_other));
  EXPECT_TRUE(std::filesystem::exists(base.text() + "/pid"));
  remove_sockets_of(other);
  EXPECT_FALSE(std::filesystem::exists(of_other));
}

}  // namespace
}  // namespace dlaunch::supervisor::host
