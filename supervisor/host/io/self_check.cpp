#include "supervisor/host/io/self_check.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/content_hash.h"
#include "base/io/clock.h"
#include "base/io/files.h"
#include "base/io/known_hashes.h"
#include "supervisor/host/io/oom.h"

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;

void fail(protocol::Ready& ready, const std::string& check, const std::string& sentence) {
  auto* failure = ready.add_failures();
  failure->set_check(check);
  failure->set_sentence(sentence);
}

std::string next_step(protocol::PathCheck::Kind kind) {
  return kind == protocol::PathCheck::DIRECTORY ? "make it on this host, or share its file system"
                                                : "copy it to the same path on all hosts";
}

void check_path(const protocol::PathCheck& check, KnownHashes& known, protocol::Ready& ready) {
  auto* fact = ready.add_files();
  fact->set_path(check.path());
  struct stat status {};
  if (::stat(check.path().c_str(), &status) != 0) {
    const auto why = std::error_code(errno, std::generic_category()).message();
    return fail(ready, check.check(),
                "the " + check.check() + " " + check.path() + " is not there (" + why + "); " +
                    next_step(check.kind()));
  }
  fact->set_exists(true);
  fact->set_bytes(static_cast<std::uint64_t>(status.st_size));
  if (check.kind() == protocol::PathCheck::DIRECTORY) {
    if (!S_ISDIR(status.st_mode)) fail(ready, check.check(), check.path() + " is no directory");
    return;
  }
  if (!S_ISREG(status.st_mode))
    return fail(ready, check.check(), check.path() + " is no plain file");
  if (check.kind() == protocol::PathCheck::EXECUTABLE &&
      ::access(check.path().c_str(), X_OK) != 0) {
    return fail(ready, check.check(),
                check.path() +
                    " cannot be executed; chmod +x, or look whether "
                    "its file system is mounted noexec");
  }
  if (!check.hash()) return;
  const auto hashed = hash_file(check.path(), known);
  if (!hashed) return fail(ready, check.check(), hashed.error().text());
  fact->set_hash(hashed->hash);
}

/// A program's first word is looked for as execvp would.
void check_command(const protocol::JobSpec& job, protocol::Ready& ready) {
  const auto& words = job.wrap_size() > 0 ? job.wrap() : job.command();
  if (words.empty()) return;
  const auto& command = words.Get(0);
  if (command.find("${") != std::string::npos) return;
  const auto executable = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (command.find('/') != std::string::npos) {
    const auto path = command.front() == '/' ? command : job.directory() + "/" + command;
    if (!executable(path)) {
      fail(ready, "command", "the command " + path + " is not there or cannot be executed");
    }
    return;
  }
  const auto set = job.environment().find("PATH");
  const char* own = ::getenv("PATH");
  std::string paths = set != job.environment().end() ? set->second
                      : own != nullptr               ? own
                                                     : "/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= paths.size();) {
    const auto end = std::min(paths.find(':', begin), paths.size());
    if (executable(paths.substr(begin, end - begin) + "/" + command)) return;
    begin = end + 1;
  }
  fail(ready, "command",
       "the command " + command + " is not in PATH (" + paths +
           "); give its whole path, or set PATH in [program] environment");
}

std::uint32_t count_gpus() {
  std::error_code code;
  std::uint32_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", code)) {
    count += entry.path().empty() ? 0 : 1;
  }
  return count;
}

struct Interface {
  std::string name;
  std::string address;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = entry->ifa_addr->sa_family;
    const void* address = nullptr;
    if (family == AF_INET) {
      address = &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
    } else if (family == AF_INET6) {
      address = &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    } else {
      continue;
    }
    if (::inet_ntop(family, address, text.data(), text.size()) == nullptr) continue;
    found.push_back({entry->ifa_name, text.data()});
  }
  return found;
}

void find_data_address(const SelfCheckInput& input, SelfCheck& check) {
  auto& ready = check.ready;
  auto address = input.data_address.empty() ? input.control_address : input.data_address;
  const auto all = interfaces();
  if (input.data_address.empty() && !input.data_interface.empty()) {
    address.clear();
    for (const auto& one : all) {
      if (one.name == input.data_interface && address.empty()) address = one.address;
    }
    if (address.empty()) {
      fail(ready, "data_interface",
           "the interface " + input.data_interface +
               " is not there or has no address; see `ip address`");
    }
  }
  bool ours = false;
  for (const auto& one : all) {
    if (one.address != address) continue;
    ours = true;
    if (one.name != "lo") check.data_interface = one.name;
  }
  if (!ours && !address.empty()) {
    fail(ready, "data_address", "no interface of this host has the data address " + address);
  }
  ready.mutable_facts()->set_data_address(address);
}

std::string fingerprint() {
  const auto cpu = read_file("/proc/cpuinfo", 16 * 1024);
  if (!cpu) return "unknown";
  const auto line_of = [&](const char* key) {
    const auto begin = cpu->find(key);
    if (begin == std::string::npos) return std::string();
    const auto colon = cpu->find(':', begin);
    return cpu->substr(colon + 2, cpu->find('\n', colon) - colon - 2);
  };
  const auto flags = line_of("flags");
  return line_of("model name") + " " + content_hash(std::as_bytes(std::span(flags))).substr(0, 8);
}

}  // namespace

SelfCheck check_self(const protocol::JobSpec& job, const SelfCheckInput& input) {
  SelfCheck check;
  auto& ready = check.ready;
  auto& facts = *ready.mutable_facts();
  facts.set_cores(std::max(1U, std::thread::hardware_concurrency()));
  facts.set_memory_bytes(static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE)));
  facts.set_gpus(count_gpus());
  facts.set_workers(job.workers() > 0 ? job.workers() : std::max(1U, facts.gpus()));
  facts.set_fingerprint(fingerprint());
  facts.set_scratch(input.scratch);
  KnownHashes known(input.known_hashes);
  for (const auto& path : job.checks()) check_path(path, known, ready);
  known.save();
  if (!job.trainer()) check_command(job, ready);
  find_data_address(input, check);
  if (!kernel_log_is_readable()) facts.add_blind_sensors("the kernel log cannot be read");
  if (facts.gpus() == 0) facts.add_blind_sensors("no GPU driver");
  return check;
}

}  // namespace dlaunch::supervisor::host
