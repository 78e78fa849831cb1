// Several threads of one rank: on communicators of their own they do not disturb each other; on one they are
// serialised.
#include <thread>
#include <vector>

#include "exercise.h"

namespace floe::test {
namespace {

constexpr int kTurns = kSanitized ? 20 : 100;

void on_several(int32_t workers) {
  constexpr int kThreads = 4;
  run_ranks(2,
            [](Rank& r) {
              std::vector<floe_comm_t*> comms(kThreads);
              for (auto& comm : comms) ASSERT_FLOE_OK(floe_comm_split(r.comm, 0, 0, &comm));
              std::vector<std::thread> threads;
              for (int i = 0; i < kThreads; ++i)
                threads.emplace_back([&, i] {
                  const Rank mine{r.context, comms[static_cast<size_t>(i)], r.rank, r.size};
                  for (int turn = 0; turn < kTurns; ++turn) {
                    const auto kind =
                        all_collectives()[static_cast<size_t>(turn + i) % all_collectives().size()];
                    Exercise(mine, {.collective = kind, .count = static_cast<uint64_t>(1 + turn * 97)},
                             static_cast<uint64_t>(turn))
                        .run();
                  }
                });
              for (auto& thread : threads) thread.join();
              for (auto* comm : comms) EXPECT_FLOE_OK(floe_comm_destroy(comm));
            },
            {.workers = workers});
}

TEST(Threads, OnCommunicatorsOfTheirOwn) { on_several(0); }
TEST(Threads, OnCommunicatorsOfTheirOwnWithAWorker) { on_several(1); }

// Which thread's call comes first differs from rank to rank; equal calls may meet in any order.
TEST(Threads, OnOneCommunicatorAreSerialised) {
  run_ranks(2, [](Rank& r) {
    constexpr int kThreads = 3;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          std::vector<float> data(300, 1.0f);
          ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(), FLOE_FLOAT32,
                                         FLOE_SUM, nullptr));
          ASSERT_EQ(2.0f, data.front());
          ASSERT_EQ(2.0f, data.back());
        }
      });
    for (auto& thread : threads) thread.join();
  });
}

// Messages, each thread with a tag of its own, beside collectives of another thread.
TEST(Threads, MessagesBesideCollectives) {
  run_ranks(2, [](Rank& r) {
    std::thread collectives([&] {
      for (int turn = 0; turn < kTurns; ++turn)
        Exercise(r, {.count = 500}, static_cast<uint64_t>(turn)).run();
    });
    std::vector<std::thread> messages;
    for (uint64_t tag = 0; tag < 2; ++tag)
      messages.emplace_back([&, tag] {
        std::vector<uint64_t> data(2000);
        for (uint64_t turn = 0; turn < kTurns; ++turn) {
          if (r.rank == 0) {
            data.assign(data.size(), turn * 10 + tag);
            ASSERT_FLOE_OK(floe_send(r.comm, data.data(), data.size(), FLOE_UINT64, 1, tag, nullptr));
          } else {
            ASSERT_FLOE_OK(floe_recv(r.comm, data.data(), data.size(), FLOE_UINT64, 0, tag, nullptr));
            ASSERT_EQ(turn * 10 + tag, data.back());
          }
        }
      });
    collectives.join();
    for (auto& thread : messages) thread.join();
  });
}

}  // namespace
}  // namespace floe::test
