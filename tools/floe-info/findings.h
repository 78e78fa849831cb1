// What floe-info --check has found, in words, and what to change.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace floe::info {

enum class Verdict {
  kGood,
  kNote,   // works, though not as well as it could, or not everywhere
  kWrong,  // something will not work
};

struct Finding {
  Verdict verdict = Verdict::kGood;
  std::string_view topic;
  std::string text;
  std::string advice;  // what to change; empty: nothing
};

class Findings {
 public:
  void good(std::string_view topic, std::string text) { add({Verdict::kGood, topic, std::move(text), ""}); }
  void note(std::string_view topic, std::string text, std::string advice) {
    add({Verdict::kNote, topic, std::move(text), std::move(advice)});
  }
  void wrong(std::string_view topic, std::string text, std::string advice) {
    add({Verdict::kWrong, topic, std::move(text), std::move(advice)});
  }

  bool all_works() const { return works_; }
  const std::vector<Finding>& list() const { return list_; }

 private:
  void add(Finding finding) {
    works_ = works_ && finding.verdict != Verdict::kWrong;
    list_.push_back(std::move(finding));
  }

  std::vector<Finding> list_;
  bool works_ = true;
};

}  // namespace floe::info
