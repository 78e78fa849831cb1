// Logging, one line a message, to stderr ("floe[812] warning: ..." with the process id) or to the callback of
// floe_set_log_callback. FLOE_LOG sets the level.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace floe {

enum class LogLevel { kError, kWarn, kInfo, kDebug, kTrace };

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

// See floe_set_log_callback. Null: stderr.
using LogCallback = void (*)(void* user, uint32_t level, const char* message);
void set_log_callback(LogCallback callback, void* user);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace floe
