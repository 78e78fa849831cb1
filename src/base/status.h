// Status and Result: how every fallible path inside floe reports, with the message a person will read.
#pragma once

#include <floe/floe.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace floe {

// A null pointer when all is well, so that the way without errors costs nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(floe_status_t code, std::string message)
      : error_(code == FLOE_OK ? nullptr : std::make_shared<const Error>(code, std::move(message))) {}

  bool ok() const { return !error_; }
  floe_status_t code() const { return error_ ? error_->first : FLOE_OK; }
  const std::string& message() const { return error_ ? error_->second : none(); }

  // The same error with what was being done in front: "creating 'world': <message>".
  Status in(std::string_view what) const { return {code(), fmt::format("{}: {}", what, message())}; }

 private:
  using Error = std::pair<floe_status_t, std::string>;
  static const std::string& none();
  std::shared_ptr<const Error> error_;
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
#define FLOE_TRY(expression)                                                    \
  do {                                                                          \
    if (auto floe_status = (expression); !floe_status.ok()) return floe_status; \
  } while (false)
