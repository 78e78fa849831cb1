// Logging to stderr, one line a message: "floe[812] warning: ..." with the process id. FLOE_LOG sets the
// level.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace floe {

enum class LogLevel { kError, kWarn, kInfo, kDebug, kTrace };

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace floe
