// Threads besides the main one.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace dlaunch {

/// Signals are for the threads that wait for them; a thread inherits the mask of its maker.
template <class Body>
[[nodiscard]] std::thread thread_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace dlaunch
