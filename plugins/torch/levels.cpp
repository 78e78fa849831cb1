#include "levels.h"

#include <pthread.h>

#include <utility>

namespace floe_torch {
namespace {

// A thread that waits for Python's lock wakes 200 times a second: less than this of a second is waiting.
constexpr std::chrono::milliseconds kIdle(20);

thread_local int level = 0;
thread_local std::shared_ptr<Chain> chain;

}  // namespace

Chain::Chain() {
  // Fails for threads that have ended only.
  if (::pthread_getcpuclockid(::pthread_self(), &clock_) != 0) clock_ = CLOCK_MONOTONIC;
  used_ = used();
}

std::chrono::nanoseconds Chain::used() const {
  timespec time{};
  ::clock_gettime(clock_, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool Chain::stalled() {
  const auto before = std::exchange(used_, used());
  return used_ - before < kIdle && under_way_.load(std::memory_order_relaxed) == 0;
}

Chain::UnderWay::UnderWay(std::shared_ptr<Chain> chain) : chain_(std::move(chain)) {
  if (chain_) chain_->under_way_.fetch_add(1, std::memory_order_relaxed);
}

Chain::UnderWay::~UnderWay() {
  if (chain_) chain_->under_way_.fetch_sub(1, std::memory_order_relaxed);
}

int this_level() { return level; }

int enter_level(int to) { return std::exchange(level, to); }

const std::shared_ptr<Chain>& this_chain() { return chain; }

AtLevel::AtLevel(int to, std::shared_ptr<Chain> in)
    : level_before_(enter_level(to)), chain_before_(std::exchange(chain, std::move(in))) {}

AtLevel::~AtLevel() {
  enter_level(level_before_);
  chain = std::move(chain_before_);
}

}  // namespace floe_torch
