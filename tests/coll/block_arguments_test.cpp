// Wrong arguments of the collectives of blocks.
#include <string>

#include "refusals.h"

namespace floe::test {
namespace {

TEST(BlockArguments, NullBuffersAndArrays) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    const uint64_t counts[] = {1, 1}, *none = nullptr;
    const auto type = FLOE_FLOAT32;
    float* const to = data + 32;
    expect_refused(bad, floe_all_gather_v(r.comm, data, to, none, none, type, nullptr), "counts");
    expect_refused(bad, floe_all_gather_v(r.comm, nullptr, to, counts, none, type, nullptr), "send");
    expect_refused(bad, floe_all_gather_v(r.comm, data, nullptr, counts, none, type, nullptr), "recv");
    expect_refused(bad, floe_reduce_scatter_v(r.comm, data, to, none, none, type, FLOE_SUM, nullptr),
                   "counts");
    expect_refused(bad, floe_reduce_scatter_v(r.comm, nullptr, to, counts, none, type, FLOE_SUM, nullptr),
                   "send");
    expect_refused(bad, floe_all_to_all(r.comm, nullptr, to, 1, type, nullptr), "send");
    expect_refused(bad, floe_all_to_all(r.comm, data, nullptr, 1, type, nullptr), "recv");
    expect_refused(bad, floe_all_to_all_v(r.comm, data, none, none, to, counts, none, type, nullptr),
                   "send_counts");
    expect_refused(bad, floe_all_to_all_v(r.comm, data, counts, none, to, none, none, type, nullptr),
                   "recv_counts");
    expect_refused(bad, floe_all_to_all_v(r.comm, nullptr, counts, none, to, counts, none, type, nullptr),
                   "send");
    expect_refused(bad, floe_gather(r.comm, nullptr, to, 1, type, 0, nullptr), "send");
    expect_refused(bad, floe_gather(r.comm, data, nullptr, 1, type, r.rank, nullptr), "recv");
    expect_refused(bad, floe_gather_v(r.comm, nullptr, 1, to, counts, none, type, 0, nullptr), "send");
    expect_refused(bad, floe_gather_v(r.comm, data, 1, to, none, none, type, r.rank, nullptr), "counts");
    expect_refused(bad, floe_scatter(r.comm, data, nullptr, 1, type, 0, nullptr), "recv");
    expect_refused(bad, floe_scatter(r.comm, nullptr, to, 1, type, r.rank, nullptr), "send");
    expect_refused(bad, floe_scatter_v(r.comm, data, counts, none, nullptr, 1, type, 0, nullptr), "recv");
    expect_refused(bad, floe_scatter_v(r.comm, data, none, none, to, 1, type, r.rank, nullptr), "counts");
  });
}

TEST(BlockArguments, NullBuffersOfEmptyBlocksAreFine) {
  refuse([](Rank& r, float*) {
    const uint64_t counts[] = {0, 0}, anywhere[] = {UINT64_MAX, 3}, *none = nullptr;
    const auto type = FLOE_FLOAT32;
    EXPECT_FLOE_OK(floe_all_gather_v(r.comm, nullptr, nullptr, counts, anywhere, type, nullptr));
    EXPECT_FLOE_OK(
        floe_reduce_scatter_v(r.comm, nullptr, nullptr, counts, anywhere, type, FLOE_SUM, nullptr));
    EXPECT_FLOE_OK(floe_all_to_all(r.comm, nullptr, nullptr, 0, type, nullptr));
    EXPECT_FLOE_OK(
        floe_all_to_all_v(r.comm, nullptr, counts, none, nullptr, counts, anywhere, type, nullptr));
    EXPECT_FLOE_OK(floe_gather(r.comm, nullptr, nullptr, 0, type, 1, nullptr));
    EXPECT_FLOE_OK(floe_gather_v(r.comm, nullptr, 0, nullptr, counts, none, type, 1, nullptr));
    EXPECT_FLOE_OK(floe_scatter(r.comm, nullptr, nullptr, 0, type, 1, nullptr));
    EXPECT_FLOE_OK(floe_scatter_v(r.comm, nullptr, counts, none, nullptr, 0, type, 1, nullptr));
  });
}

TEST(BlockArguments, CountsAndOffsetsThatOverflow) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    const auto type = FLOE_FLOAT32;
    const uint64_t *none = nullptr, ones[] = {1, 1};
    for (const uint64_t huge : {UINT64_MAX, UINT64_MAX / 4 + 1, uint64_t{1} << 62}) {
      const uint64_t counts[] = {1, huge};
      const std::string text = "counts[1] is " + std::to_string(huge);
      const char* const words = text.c_str();
      expect_refused(bad, floe_all_gather_v(r.comm, data, data, counts, none, type, nullptr), words);
      expect_refused(bad, floe_reduce_scatter_v(r.comm, data, data, counts, none, type, FLOE_SUM, nullptr),
                     words);
      expect_refused(bad, floe_all_to_all_v(r.comm, data, counts, none, data, ones, none, type, nullptr),
                     words);
      expect_refused(bad, floe_all_to_all_v(r.comm, data, ones, none, data, counts, none, type, nullptr),
                     words);
      expect_refused(bad, floe_gather_v(r.comm, data, 1, data, counts, none, type, r.rank, nullptr), words);
      expect_refused(bad, floe_scatter_v(r.comm, data, counts, none, data, 1, type, r.rank, nullptr), words);
      const uint64_t offsets[] = {0, huge};
      expect_refused(bad, floe_all_gather_v(r.comm, data, data, ones, offsets, type, nullptr), "at offset");
      const std::string count = std::to_string(huge);
      expect_refused(bad, floe_gather_v(r.comm, data, huge, data, ones, none, type, 1 - r.rank, nullptr),
                     count.c_str());
      expect_refused(bad, floe_all_to_all(r.comm, data, data, huge, type, nullptr), count.c_str());
      expect_refused(bad, floe_gather(r.comm, data, data, huge, type, 0, nullptr), count.c_str());
      expect_refused(bad, floe_scatter(r.comm, data, data, huge, type, 0, nullptr), count.c_str());
    }
    // Each fits, back to back they don't.
    const uint64_t halves[] = {(uint64_t{1} << 60) - 8, (uint64_t{1} << 60) - 8};
    expect_refused(bad, floe_all_gather_v(r.comm, data, data, halves, none, type, nullptr), "counts[1]");
  });
}

TEST(BlockArguments, BlocksThatOverlap) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    const auto type = FLOE_FLOAT32;
    const uint64_t counts[] = {4, 4}, crossing[] = {0, 3}, apart[] = {0, 8}, *none = nullptr;
    float* const to = data + 32;
    expect_refused(bad, floe_all_gather_v(r.comm, data, to, counts, crossing, type, nullptr), "block 1");
    expect_refused(bad, floe_all_gather_v(r.comm, to + 6 - 4 * r.rank, to, counts, none, type, nullptr),
                   "overlap");
    expect_refused(bad, floe_all_to_all(r.comm, data, data + 1, 4, type, nullptr), "overlap");
    expect_refused(bad, floe_all_to_all_v(r.comm, data, counts, none, data, counts, none, type, nullptr),
                   "overlap");
    expect_refused(bad, floe_reduce_scatter_v(r.comm, data, data + 2, counts, none, type, FLOE_SUM, nullptr),
                   "overlap");
    expect_refused(bad, floe_gather(r.comm, data + 1, data, 4, type, r.rank, nullptr), "overlap");
    expect_refused(bad, floe_scatter(r.comm, data, data + 1, 4, type, r.rank, nullptr), "overlap");
    expect_refused(bad, floe_scatter_v(r.comm, data, counts, crossing, data + 1, 4, type, r.rank, nullptr),
                   "overlap");
    // Between each other's blocks, and one block sent to all.
    const uint64_t same[] = {0, 0};
    EXPECT_FLOE_OK(floe_all_to_all_v(r.comm, data, counts, apart, data + 4, counts, apart, type, nullptr));
    EXPECT_FLOE_OK(floe_all_to_all_v(r.comm, data, counts, same, to, counts, none, type, nullptr));
  });
}

TEST(BlockArguments, TheRest) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    const auto type = FLOE_FLOAT32;
    const uint64_t counts[] = {2, 2}, more[] = {3, 3}, *none = nullptr;
    float* const to = data + 32;
    const uint32_t other = 1 - r.rank;
    void* const in_place = const_cast<void*>(FLOE_IN_PLACE);
    expect_refused(bad, floe_all_gather_v(r.comm, data, to, counts, none, kBadType, nullptr), "77");
    expect_refused(bad, floe_all_to_all(r.comm, data, to, 1, kBadType, nullptr), "77");
    expect_refused(bad, floe_gather_v(r.comm, FLOE_IN_PLACE, 1, to, counts, none, kBadType, r.rank, nullptr),
                   "77");
    expect_refused(bad, floe_reduce_scatter_v(r.comm, data, to, counts, none, type, kBadOp, nullptr),
                   "floe_op_t");
    expect_refused(FLOE_ERR_UNSUPPORTED,
                   floe_reduce_scatter_v(r.comm, data, to, counts, none, FLOE_INT8, FLOE_AVG, nullptr),
                   "avg");
    expect_refused(bad, floe_gather(r.comm, data, to, 1, type, 2, nullptr), "root is 2");
    expect_refused(bad, floe_gather_v(r.comm, data, 2, to, counts, none, type, 2, nullptr), "root is 2");
    expect_refused(bad, floe_scatter(r.comm, data, to, 1, type, 7, nullptr), "root is 7");
    expect_refused(bad, floe_scatter_v(r.comm, data, counts, none, to, 2, type, 7, nullptr), "root is 7");
    // What a rank sends to itself.
    expect_refused(bad, floe_gather_v(r.comm, data, 3, to, counts, none, type, r.rank, nullptr), "itself");
    expect_refused(bad, floe_scatter_v(r.comm, data, counts, none, to, 3, type, r.rank, nullptr), "itself");
    expect_refused(bad, floe_all_to_all_v(r.comm, data, counts, none, to, more, none, type, nullptr),
                   "itself");
    // In place where there is no such form.
    expect_refused(bad, floe_gather(r.comm, FLOE_IN_PLACE, to, 1, type, other, nullptr), "IN_PLACE");
    expect_refused(bad, floe_gather_v(r.comm, FLOE_IN_PLACE, 2, to, counts, none, type, other, nullptr),
                   "IN_PLACE");
    expect_refused(bad, floe_scatter(r.comm, FLOE_IN_PLACE, to, 1, type, r.rank, nullptr), "IN_PLACE");
    expect_refused(bad, floe_scatter(r.comm, data, in_place, 1, type, other, nullptr), "IN_PLACE");
    expect_refused(bad, floe_scatter_v(r.comm, data, counts, none, in_place, 2, type, other, nullptr),
                   "IN_PLACE");
    expect_refused(bad,
                   floe_reduce_scatter_v(r.comm, FLOE_IN_PLACE, to, counts, none, type, FLOE_SUM, nullptr),
                   "IN_PLACE");
    EXPECT_EQ(bad, floe_all_to_all_v(nullptr, data, counts, none, to, counts, none, type, nullptr));
    EXPECT_EQ(bad, floe_gather(nullptr, data, to, 1, type, 0, nullptr));
  });
}

}  // namespace
}  // namespace floe::test
