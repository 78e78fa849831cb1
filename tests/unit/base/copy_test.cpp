#include "base/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace floe {
namespace {

// Every distance around a page's multiple, with lengths about a vector's, a step's and where ways change.
template <class Copy>
void expect_copies(Copy& copy) {
  constexpr uint64_t kPage = 4096, kRoom = 24 * kPage;
  constexpr std::byte kUntouched{0xee};
  std::vector<std::byte> memory(2 * kRoom);
  std::byte* const from = memory.data() + (kPage - reinterpret_cast<uintptr_t>(memory.data()) % kPage);
  for (uint64_t i = 0; i < kRoom / 2; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const uint64_t bytes :
       {0,    1,    63,   64,   100,  127,  128,  191,  192,  256,   300,   2047,  2048, 2049,
        2079, 2080, 2175, 2176, 2177, 2208, 4096, 4099, 8192, 16383, 16384, 16500, 40000}) {
    for (uint64_t ahead = 0; ahead <= 72; ++ahead) {
      std::vector<std::byte> target(kRoom, kUntouched);
      const uintptr_t miss = reinterpret_cast<uintptr_t>(target.data()) % kPage;
      std::byte* const to = target.data() + (kPage - miss) + ahead;
      copy(to, from, bytes);
      ASSERT_TRUE(std::equal(from, from + bytes, to)) << bytes << " bytes, " << ahead << " ahead";
      const auto touched =
          std::count_if(target.begin(), target.end(), [&](std::byte b) { return b != kUntouched; });
      const auto expected = std::count_if(from, from + bytes, [&](std::byte b) { return b != kUntouched; });
      ASSERT_EQ(touched, expected) << bytes << " bytes, " << ahead << " ahead";
    }
  }
}

TEST(CopyBytes, CopiesThoseBytesAndNoOthersWhereverTheyLie) { expect_copies(copy_bytes); }
TEST(CopyByVectors, CopiesThoseBytesAndNoOthersWhereverTheyLie) { expect_copies(copy_by_vectors); }
TEST(CopyByPages, CopiesThoseBytesAndNoOthersWhereverTheyLie) { expect_copies(copy_by_pages); }
TEST(CopyAhead, CopiesThoseBytesAndNoOthersWhereverTheyLie) { expect_copies(copy_ahead); }
TEST(CopyFromCore, CopiesThoseBytesAndNoOthersWhereverTheyLie) { expect_copies(copy_from_core); }
// What lies around each of the three stays what it is.
TEST(SwapFromCore, BothWaysThoseBytesAndNoOthersWhereverTheyLie) {
  constexpr uint64_t kRoom = 20480;
  const auto numbered = [](uint64_t seed) {
    std::vector<std::byte> bytes(kRoom);
    for (uint64_t i = 0; i < kRoom; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + seed);
    return bytes;
  };
  const std::vector<std::byte> kept = numbered(1), came = numbered(2), next = numbered(3);
  const auto replaced = [](std::vector<std::byte> in, uint64_t at, const std::vector<std::byte>& by,
                           uint64_t begin, uint64_t bytes) {
    std::copy_n(by.begin() + static_cast<ptrdiff_t>(begin), bytes, in.begin() + static_cast<ptrdiff_t>(at));
    return in;
  };
  for (const uint64_t bytes : {0, 1, 64, 8191, 8192, 8200, 16384})
    for (const uint64_t next_bytes : {0, 1, 64, 8191, 8192, 8200, 16384})
      for (const auto& [to, shared, from] : {std::array<uint64_t, 3>{0, 0, 0}, {1, 64, 40}, {72, 3, 0}}) {
        SCOPED_TRACE(testing::Message() << bytes << " and " << next_bytes << " bytes, at " << to);
        std::vector<std::byte> target = kept, line = came;
        swap_from_core(target.data() + to, bytes, line.data() + shared, next.data() + from, next_bytes);
        ASSERT_EQ(target, replaced(kept, to, came, shared, bytes));
        ASSERT_EQ(line, replaced(came, shared, next, from, next_bytes));
        target = kept, line = came;
        swap_ahead(target.data() + to, line.data() + shared, next.data() + from, bytes);
        ASSERT_EQ(target, replaced(kept, to, came, shared, bytes));
        ASSERT_EQ(line, replaced(came, shared, next, from, bytes));
      }
}
TEST(CopyNonTemporal, CopiesThoseBytesAndNoOthersWhereverTheyLie) { expect_copies(copy_non_temporal); }
TEST(CopyBytes, NothingMayComeFromNowhere) {
  copy_bytes(nullptr, nullptr, 0);
  copy_by_vectors(nullptr, nullptr, 0);
  copy_by_pages(nullptr, nullptr, 0);
  copy_ahead(nullptr, nullptr, 0);
  copy_from_core(nullptr, nullptr, 0);
  copy_non_temporal(nullptr, nullptr, 0);
  swap_ahead(nullptr, nullptr, nullptr, 0);
  swap_from_core(nullptr, 0, nullptr, nullptr, 0);
}

}  // namespace
}  // namespace floe
