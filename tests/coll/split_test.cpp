// floe_comm_split: who is in which child with which rank, and that a child depends on nobody but its ranks.
#include <string>
#include <vector>

#include "exercise.h"

namespace floe::test {
namespace {

floe_comm_t* split(const Rank& r, int32_t color, int32_t key) {
  floe_comm_t* child = nullptr;
  EXPECT_FLOE_OK(floe_comm_split(r.comm, color, key, &child));
  return child;
}

TEST(Split, ByColourInTheOrderOfKeys) {
  run_ranks(5, [](Rank& r) {
    // 0, 2, 4 and 1, 3; the keys turn the order round.
    floe_comm_t* child = split(r, static_cast<int32_t>(r.rank % 2), -static_cast<int32_t>(r.rank));
    ASSERT_NE(nullptr, child);
    const Rank mine = described(r, child);
    EXPECT_EQ(r.rank % 2 == 0 ? 3u : 2u, mine.size);
    EXPECT_EQ(r.rank % 2 == 0 ? (4 - r.rank) / 2 : (3 - r.rank) / 2, mine.rank);
    use(mine);
    EXPECT_FLOE_OK(floe_comm_destroy(child));
    use(r);
  });
}

TEST(Split, EqualKeysKeepTheParentsOrder) {
  run_ranks(4, [](Rank& r) {
    floe_comm_t* child = split(r, 7, 3);
    const Rank mine = described(r, child);
    EXPECT_EQ(4u, mine.size);
    EXPECT_EQ(r.rank, mine.rank);
    EXPECT_FLOE_OK(floe_comm_destroy(child));
  });
}

TEST(Split, UndefinedGetsNone) {
  run_ranks(4, [](Rank& r) {
    floe_comm_t* child = r.comm;  // anything but NULL
    ASSERT_FLOE_OK(floe_comm_split(r.comm, r.rank == 1 ? FLOE_UNDEFINED : 0, 0, &child));
    if (r.rank == 1) {
      EXPECT_EQ(nullptr, child);
    } else {
      const Rank mine = described(r, child);
      EXPECT_EQ(3u, mine.size);
      use(mine);
      EXPECT_FLOE_OK(floe_comm_destroy(child));
    }
    use(r);
  });
}

TEST(Split, IntoRanksOfTheirOwn) {
  run_ranks(3, [](Rank& r) {
    const Rank mine = described(r, split(r, static_cast<int32_t>(r.rank), 0));
    EXPECT_EQ(1u, mine.size);
    use(mine);
    EXPECT_FLOE_OK(floe_comm_destroy(mine.comm));
    floe_comm_t* none = nullptr;
    EXPECT_FLOE_OK(floe_comm_split(r.comm, FLOE_UNDEFINED, 0, &none));
    EXPECT_EQ(nullptr, none);
  });
  run_ranks(1, [](Rank& r) {
    floe_comm_t* child = split(r, 0, 0);
    use(described(r, child));
    EXPECT_FLOE_OK(floe_comm_destroy(child));
  });
}

TEST(Split, ChildrenOutliveTheirParents) {
  run_ranks(4, [](Rank& r) {
    const Rank half = described(r, split(r, static_cast<int32_t>(r.rank / 2), 0));
    const Rank pair = described(half, split(half, 0, -static_cast<int32_t>(half.rank)));
    EXPECT_FLOE_OK(floe_comm_destroy(r.comm));
    r.comm = nullptr;
    use(half);
    EXPECT_FLOE_OK(floe_comm_destroy(half.comm));
    use(pair);
    floe_comm_info_t info = FLOE_COMM_INFO_INIT;
    EXPECT_FLOE_OK(floe_comm_info(pair.comm, &info));
    EXPECT_EQ(60'000u, info.timeout_ms) << "the parent's";
    EXPECT_FLOE_OK(floe_comm_destroy(pair.comm));
  });
}

// A child's abort or destruction is no business of its parent's or its sibling's.
TEST(Split, FailureStaysInTheChild) {
  run_ranks(4, [](Rank& r) {
    const Rank mine = described(r, split(r, static_cast<int32_t>(r.rank / 2), 0));
    if (r.rank == 0) {
      EXPECT_FLOE_OK(floe_comm_abort(mine.comm));
    }
    if (r.rank < 2) {
      EXPECT_EQ(FLOE_ERR_ABORTED, floe_barrier(mine.comm, nullptr));
    } else {
      use(mine);
    }
    use(r);
    EXPECT_FLOE_OK(floe_comm_destroy(mine.comm));
    use(r);
  });
}

TEST(Split, WhileOperationsAreUnderWay) {
  run_ranks(3,
            [](Rank& r) {
              float value = 1;
              char byte = 0;
              Request reduce, receive;
              ASSERT_FLOE_OK(
                  floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, FLOE_SUM, reduce.out()));
              if (r.rank == 0) {
                ASSERT_FLOE_OK(floe_recv(r.comm, &byte, 1, FLOE_UINT8, 1, 5, receive.out()));
              }
              const Rank mine = described(r, split(r, 0, 0));
              use(mine);
              if (r.rank == 1) {
                EXPECT_FLOE_OK(floe_send(r.comm, "x", 1, FLOE_UINT8, 0, 5, nullptr));
              }
              EXPECT_FLOE_OK(reduce.wait());
              EXPECT_EQ(3.0f, value);
              if (r.rank == 0) {
                EXPECT_FLOE_OK(receive.wait());
                EXPECT_EQ('x', byte);
              }
              EXPECT_FLOE_OK(floe_comm_destroy(mine.comm));
            },
            {.workers = 1});
}

// Even against an all_gather of the very shape that it uses itself.
TEST(Split, AgainstAnotherCollectiveIsAMismatch) {
  run_ranks(2, [](Rank& r) {
    floe_comm_t* child = nullptr;
    std::vector<uint8_t> mine(8), all(16);
    const floe_status_t status =
        r.rank == 0 ? floe_comm_split(r.comm, 0, 0, &child)
                    : floe_all_gather(r.comm, mine.data(), all.data(), 8, FLOE_UINT8, nullptr);
    EXPECT_EQ(FLOE_ERR_MISMATCH, status) << floe_last_error();
    EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("split")) << floe_last_error();
    EXPECT_EQ(nullptr, child);
    EXPECT_NE(FLOE_OK, floe_barrier(r.comm, nullptr));
  });
}

TEST(Split, RefusesWhatCannotBe) {
  run_ranks(1, [](Rank& r) {
    floe_comm_t* child = nullptr;
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_split(r.comm, -1, 0, &child));
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_split(r.comm, 0, 0, nullptr));
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_split(nullptr, 0, 0, &child));
    EXPECT_EQ(nullptr, child);
    use(r);
  });
}

TEST(Split, OfAnAbortedCommunicatorSaysSo) {
  run_ranks(2, [](Rank& r) {
    floe_comm_t* child = nullptr;
    ASSERT_FLOE_OK(floe_comm_abort(r.comm));
    EXPECT_EQ(FLOE_ERR_ABORTED, floe_comm_split(r.comm, 0, 0, &child)) << floe_last_error();
    EXPECT_NE(std::string::npos, std::string(floe_last_error()).find("floe_comm_split of 'test'"));
  });
}

}  // namespace
}  // namespace floe::test
