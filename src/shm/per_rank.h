// A value for each rank, on the stack where they are few.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

namespace floe {

template <class T>
class PerRank {
 public:
  explicit PerRank(uint32_t ranks) : ranks_(ranks) {
    if (ranks > kFew) [[unlikely]]
      many_ = std::make_unique<T[]>(ranks);
  }
  T& operator[](uint32_t rank) { return data()[rank]; }
  // The first `count` of them.
  std::span<const T> first(uint32_t count) { return {data(), count}; }

 private:
  static constexpr uint32_t kFew = 16;
  T* data() { return ranks_ > kFew ? many_.get() : few_.data(); }
  std::array<T, kFew> few_;
  std::unique_ptr<T[]> many_;
  uint32_t ranks_;
};

}  // namespace floe
