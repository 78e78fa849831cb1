// Status and Result: how every fallible path inside floe reports, with the message a person will read.
#pragma once

#include <floe/floe.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace floe {

// A null pointer when all is well, so that the way without errors costs nothing. Copies share the error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(floe_status_t code, std::string message);
  Status(const Status& other) noexcept : error_(other.error_) {
    if (error_) [[unlikely]]
      hold();
  }
  Status(Status&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Status() {
    if (error_) [[unlikely]]
      release();
  }

  bool ok() const { return !error_; }
  floe_status_t code() const;
  const std::string& message() const;

  // The same error with what was being done in front: "creating 'world': <message>".
  Status in(std::string_view what) const { return {code(), fmt::format("{}: {}", what, message())}; }

 private:
  struct Error;
  void hold() noexcept;
  void release() noexcept;
  Error* error_ = nullptr;
};

template <class... Args>
Status error(floe_status_t code, fmt::format_string<Args...> format, Args&&... args) {
  return {code, fmt::format(format, std::forward<Args>(args)...)};
}

// FLOE_ERR_SYSTEM. Made when the library is loaded: it takes no memory.
const Status& out_of_memory();

// FLOE_ERR_SYSTEM with errno's text: "<what>: <strerror> (errno 24)".
Status system_error(std::string_view what, int errno_value);

// A value, or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace floe

// Returns the status from the enclosing function unless it is OK.
#define FLOE_TRY(expression)                                             \
  do {                                                                   \
    if (auto floe_status = (expression); !floe_status.ok()) [[unlikely]] \
      return floe_status;                                                \
  } while (false)
