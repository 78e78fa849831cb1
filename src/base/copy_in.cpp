#include "base/copy_in.h"

#include <algorithm>

#include "base/ticks.h"

namespace floe {

bool CopyIn::by_pages() const {
  if (copies_ < kSettling || !timed()) return usual_;
  // One way, twice the other and the first again: so neither meets more of the messages' first parts, and
  // what changes meanwhile changes both.
  return ((copies_ - kSettling) / kRun + 1) / 2 % 2 != 0;
}

void CopyIn::took(double cost) {
  if (copies_ == 0) {
    cost_ = {};
    least_ = cost;
  }
  if (timed()) least_ = std::min(least_, cost);
  constexpr double kOutlier = 3;  // a copy that was interrupted adds little
  if (timed() && copies_ >= kSettling) cost_[by_pages() ? 1 : 0] += std::min(cost, kOutlier * least_);
  if (++copies_ == kTrial) usual_ = cost_[1] < kBetter * cost_[0];
  if (copies_ < period_) return;
  copies_ = 0;
  period_ = std::min(2 * period_, kLastPeriod);
}

void CopyIn::copy_large(void* to, const void* from, uint64_t bytes) {
  const bool timed = this->timed();
  const uint64_t begin = timed ? ticks() : 0;
  if (by_pages())
    copy_by_pages(to, from, bytes);
  else
    copy_bytes(to, from, bytes);
  took(timed ? static_cast<double>(ticks() - begin) / static_cast<double>(bytes) : 0);
}

}  // namespace floe
