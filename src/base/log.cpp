#include "base/log.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>

#include "base/settings.h"

namespace floe {
namespace {

LogLevel level_from_environment() {
  const char* text = std::getenv("FLOE_LOG");
  const std::string_view value = text ? text : "";
  constexpr std::array<std::string_view, 5> names = {"error", "warn", "info", "debug", "trace"};
  for (size_t i = 0; i < names.size(); ++i)
    if (value == names[i]) return static_cast<LogLevel>(i);
  return LogLevel::kWarn;  // a wrong value is reported by Settings::from_environment
}

// Recursive, so that a callback may set another or fork; leaked, so that it outlives every thread.
struct Sink {
  std::recursive_mutex mutex;
  LogCallback callback = nullptr;
  void* user = nullptr;
};

Sink& sink() {
  static Sink* const only = [] {
    // A child that logs must not find the mutex locked by a thread that it does not have.
    ::pthread_atfork([] { sink().mutex.lock(); }, [] { sink().mutex.unlock(); },
                     [] { new (&sink().mutex) std::recursive_mutex; });
    return new Sink;
  }();
  return *only;
}

}  // namespace

void set_log_callback(LogCallback callback, void* user) {
  const std::lock_guard lock(sink().mutex);
  sink().callback = callback;
  sink().user = user;
}

bool log_enabled(LogLevel level) {
  static const LogLevel limit = level_from_environment();
  return level <= limit;
}

void log_line(LogLevel level, std::string_view text) {
  {
    const std::lock_guard lock(sink().mutex);
    if (sink().callback) {
      const auto public_level = static_cast<uint32_t>(level);
      return sink().callback(sink().user, public_level, std::string(text).c_str());
    }
  }
  constexpr std::array<std::string_view, 5> words = {"error", "warning", "info", "debug", "trace"};
  const std::string line =
      fmt::format("floe[{}] {}: {}\n", ::getpid(), words[static_cast<size_t>(level)], text);
  // One write per line, so that lines of several ranks do not mix. A lost log line is not an error.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace floe
