// Threads of floe's own.
#pragma once

#include <pthread.h>

#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace floe {

// Starts `run` on a thread that takes none of the program's signals: they are for its own threads.
template <class F>
Result<std::thread> start_thread(std::string_view what, F&& run) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started = [&]() -> Result<std::thread> {
    try {
      return std::thread(std::forward<F>(run));
    } catch (const std::system_error& problem) {
      return system_error(fmt::format("starting the thread of {}", what), problem.code().value());
    }
  }();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace floe
