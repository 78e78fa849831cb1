// Sets environment variables for one test and puts the old values back.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace floe::test {

class Environment {
 public:
  Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (auto entry = before_.rbegin(); entry != before_.rend(); ++entry) apply(entry->first, entry->second);
  }

  void set(const std::string& name, const std::string& value) { change(name, value); }
  void unset(const std::string& name) { change(name, std::nullopt); }

 private:
  void change(const std::string& name, const std::optional<std::string>& value) {
    const char* old = std::getenv(name.c_str());
    before_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
    apply(name, value);
  }
  static void apply(const std::string& name, const std::optional<std::string>& value) {
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }

  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

}  // namespace floe::test
