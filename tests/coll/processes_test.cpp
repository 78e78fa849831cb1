// The oracle again, with ranks as processes that meet through the store of the environment.
#include "processes.h"

#include "block_exercise.h"
#include "exercise.h"

namespace floe::test {
namespace {

class ProcessRanks : public testing::TestWithParam<uint32_t> {};

TEST_P(ProcessRanks, EveryCollectiveGivesTheOraclesResult) {
  Processes(GetParam(), [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    uint64_t seed = 1;
    for (const auto type : {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_INT64, FLOE_UINT8})
      for (const uint64_t count : {0, 1, 100, 5000, 70'001, 600'000})
        for (const auto collective : all_collectives()) {
          if (count > 100'000 && (kSanitized || me.rank().size > 4)) continue;
          const auto root = static_cast<uint32_t>(seed % me.rank().size);
          Exercise(me.rank(), {collective, type, FLOE_SUM, count, root, seed % 2 == 0, seed % 3}, seed).run();
          ++seed;
        }
  }).expect_success();
}

TEST_P(ProcessRanks, EveryCollectiveOfBlocksGivesTheOraclesResult) {
  Processes(GetParam(), [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    uint64_t seed = 1;
    for (const auto type : {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_UINT8})
      for (const uint64_t largest : {0, 5, 3000, 70'001})
        for (const auto collective : all_block_collectives()) {
          const auto root = static_cast<uint32_t>(seed % me.rank().size);
          BlockExercise(me.rank(), {collective, type, FLOE_SUM, largest, root, seed % 2 == 0, seed % 3 == 0},
                        seed)
              .run();
          ++seed;
        }
  }).expect_success();
}

TEST_P(ProcessRanks, ManySmallOnesBackToBack) {
  Processes(GetParam(), [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    const Rank& r = me.rank();
    for (uint64_t i = 0; i < 2000; ++i) {
      int64_t value = static_cast<int64_t>(i * (r.rank + 1));
      ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_INT64, FLOE_SUM, nullptr));
      ASSERT_EQ(static_cast<int64_t>(i * r.size * (r.size + 1) / 2), value) << "call " << i;
    }
  }).expect_success();
}

TEST_P(ProcessRanks, MessagesAroundTheRing) {
  Processes(GetParam(), [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    const Rank& r = me.rank();
    const uint32_t next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
    for (const size_t bytes : {1, 5000, 3'000'000}) {
      std::vector<uint8_t> out(bytes, static_cast<uint8_t>(r.rank)), in(bytes, 0xff);
      Request receiving;
      ASSERT_FLOE_OK(floe_recv(r.comm, in.data(), bytes, FLOE_UINT8, previous, bytes, receiving.out()));
      ASSERT_FLOE_OK(floe_send(r.comm, out.data(), bytes, FLOE_UINT8, next, bytes, nullptr));
      ASSERT_FLOE_OK(receiving.wait());
      EXPECT_TRUE(in == std::vector<uint8_t>(bytes, static_cast<uint8_t>(previous)));
    }
  }).expect_success();
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProcessRanks, testing::Values(2, 3, 4, 8));

TEST(Environment, OneRankNeedsNobody) {
  Processes(1, [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    Exercise(me.rank(), {.count = 1000}, 1).run();
  }).expect_success();
}

struct WrongEnvironment {
  const char* name;
  Environment variables;
  const char* words;  // in the message
};

class WrongEnvironments : public testing::TestWithParam<WrongEnvironment> {};

TEST_P(WrongEnvironments, AreErrorsThatNameTheVariable) {
  const auto& wrong = GetParam();
  Processes(
      1,
      [&](uint32_t) {
        Member me(2000);
        EXPECT_EQ(FLOE_ERR_ENVIRONMENT, me.status()) << floe_last_error();
        EXPECT_NE(std::string::npos, std::string(floe_last_error()).find(wrong.words)) << floe_last_error();
      },
      wrong.variables)
      .expect_success();
}

INSTANTIATE_TEST_SUITE_P(
    Variables, WrongEnvironments,
    testing::Values(WrongEnvironment{"NoRank", {{"RANK", ""}}, "RANK"},
                    WrongEnvironment{"NoSize", {{"WORLD_SIZE", ""}}, "WORLD_SIZE"},
                    WrongEnvironment{"RankTooLarge", {{"RANK", "1"}}, "RANK"},
                    WrongEnvironment{"RankIsText", {{"RANK", "first"}}, "first"},
                    WrongEnvironment{"RankIsNegative", {{"RANK", "-1"}}, "-1"},
                    WrongEnvironment{"SizeIsZero", {{"WORLD_SIZE", "0"}}, "WORLD_SIZE"},
                    WrongEnvironment{"SizeIsHuge", {{"WORLD_SIZE", "99999999999999999999"}}, "WORLD_SIZE"},
                    WrongEnvironment{
                        "PortIsText", {{"WORLD_SIZE", "2"}, {"MASTER_PORT", "http"}}, "MASTER_PORT"},
                    WrongEnvironment{"ShmIsMaybe", {{"FLOE_SHM", "maybe"}}, "on, off"},
                    WrongEnvironment{"IsaIsUnknown", {{"FLOE_ISA", "mmx"}}, "FLOE_ISA"},
                    WrongEnvironment{"TimeoutIsZero", {{"FLOE_TIMEOUT_MS", "0"}}, "FLOE_TIMEOUT_MS"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace floe::test
