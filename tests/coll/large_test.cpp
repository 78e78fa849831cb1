// As much as a test can hold.
#include <algorithm>
#include <memory>

#include "exercise.h"

namespace floe::test {
namespace {

// 1 GiB on each of two ranks, in place, and the oracle element by element: sums that float32 holds exactly.
TEST(Large, AGibibyteInPlace) {
  run_ranks(2, [](Rank& r) {
    constexpr uint64_t count = kSanitized ? 1 << 22 : 1 << 28;
    const auto value = [](uint64_t i, uint32_t rank) {
      return static_cast<float>((i >> 3) % 100'003 + rank * 5);
    };
    const std::unique_ptr<float[]> data(new float[count]);
    const auto first_wrong = [&] {
      uint64_t i = 0;
      while (i < count && data[i] == value(i, 0) + value(i, 1)) ++i;
      return i;
    };
    for (uint64_t i = 0; i < count; ++i) data[i] = value(i, r.rank);
    ASSERT_FLOE_OK(
        floe_all_reduce(r.comm, FLOE_IN_PLACE, data.get(), count, FLOE_FLOAT32, FLOE_SUM, nullptr));
    EXPECT_EQ(count, first_wrong());
    // A message as long, too.
    if (r.rank == 0) {
      ASSERT_FLOE_OK(floe_send(r.comm, data.get(), count, FLOE_FLOAT32, 1, 0, nullptr));
    } else {
      std::fill_n(data.get(), count, -1.0f);
      ASSERT_FLOE_OK(floe_recv(r.comm, data.get(), count, FLOE_FLOAT32, 0, 0, nullptr));
      EXPECT_EQ(count, first_wrong());
    }
  });
}

}  // namespace
}  // namespace floe::test
