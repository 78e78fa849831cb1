#include "shm/copy_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace floe {
namespace {

// With a lap this short each way has its turn every few copies.
TEST(CopyOut, CopiesEveryByteAndNoOther) {
  constexpr uint64_t kMost = 20'000, kGuard = 128;
  CopyOut copy_out(8192);
  std::vector<std::byte> from(kMost + kGuard), to(kMost + 2 * kGuard), wanted;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 251);
  for (uint64_t turn = 0; turn < 4000; ++turn) {
    const uint64_t bytes = turn * 977 % kMost, begin = turn % 65, source = turn * 5 % kGuard;
    std::fill(to.begin(), to.end(), std::byte{0xEE});
    wanted = to;
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(source), bytes,
                wanted.begin() + static_cast<ptrdiff_t>(begin));
    copy_out(to.data() + begin, from.data() + source, bytes);
    ASSERT_TRUE(to == wanted) << bytes << " bytes from " << source << " to " << begin << ", copy " << turn;
  }
}

TEST(CopyOut, NothingFromNowhere) { CopyOut(64)(nullptr, nullptr, 0); }

}  // namespace
}  // namespace floe
