// The oracle again, with ranks as processes that meet through the store of the environment.
#include "processes.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include "block_exercise.h"
#include "exercise.h"
#include "forbid.h"
#include "sequences.h"

namespace floe::test {
namespace {

void every_collective(const Rank& r) {
  uint64_t seed = 1;
  for (const auto type : {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_INT64, FLOE_UINT8})
    for (const uint64_t count : {0, 1, 100, 5000, 70'001, 600'000})
      for (const auto collective : all_collectives()) {
        if (count > 100'000 && (kSanitized || r.size > 4)) continue;
        const auto root = static_cast<uint32_t>(seed % r.size);
        Exercise(r, {collective, type, FLOE_SUM, count, root, seed % 2 == 0, seed % 3}, seed).run();
        ++seed;
      }
}

void every_collective_of_blocks(const Rank& r) {
  uint64_t seed = 1;
  for (const auto type : {FLOE_FLOAT32, FLOE_BFLOAT16, FLOE_UINT8})
    for (const uint64_t largest : {0, 5, 3000, 70'001})
      for (const auto collective : all_block_collectives()) {
        const auto root = static_cast<uint32_t>(seed % r.size);
        BlockExercise(r, {collective, type, FLOE_SUM, largest, root, seed % 2 == 0, seed % 3 == 0}, seed)
            .run();
        ++seed;
      }
}

// Small, and as long as takes another protocol; roots, places and alignments take turns.
void every_type_and_operation(const Rank& r) {
  uint64_t seed = 1;
  for (const auto type : all_types())
    for (const auto op : all_ops())
      for (const auto collective : all_collectives())
        for (const uint64_t count : {5, 3000}) {
          if (!supported(type, op) || (!reduces(collective) && op != FLOE_SUM)) continue;
          const auto root = static_cast<uint32_t>(seed % r.size);
          Exercise(r, {collective, type, op, count, root, seed % 2 == 0, seed % 3}, seed).run();
          ++seed;
        }
  for (const auto type : all_types())
    for (const auto collective : all_block_collectives()) {
      const auto root = static_cast<uint32_t>(seed % r.size);
      BlockExercise(r, {collective, type, FLOE_SUM, 70, root, seed % 2 == 0, seed % 3 == 0}, seed).run();
      ++seed;
    }
}

void random_sequences(const Rank& r) {
  if (r.size == 1) return;  // a rank sends itself nothing
  constexpr uint64_t kSeed = 21;
  sequence_of_calls(r, kSeed);
  sequences_on_several(r, kSeed);
}

void many_small_ones(const Rank& r) {
  for (uint64_t i = 0; i < 2000; ++i) {
    int64_t value = static_cast<int64_t>(i * (r.rank + 1));
    ASSERT_FLOE_OK(floe_all_reduce(r.comm, FLOE_IN_PLACE, &value, 1, FLOE_INT64, FLOE_SUM, nullptr));
    ASSERT_EQ(static_cast<int64_t>(i * r.size * (r.size + 1) / 2), value) << "call " << i;
  }
}

void messages_around_the_ring(const Rank& r) {
  if (r.size == 1) return;
  const uint32_t next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
  for (const size_t bytes : {1, 5000, 3'000'000}) {
    std::vector<uint8_t> out(bytes, static_cast<uint8_t>(r.rank)), in(bytes, 0xff);
    Request receiving;
    ASSERT_FLOE_OK(floe_recv(r.comm, in.data(), bytes, FLOE_UINT8, previous, bytes, receiving.out()));
    ASSERT_FLOE_OK(floe_send(r.comm, out.data(), bytes, FLOE_UINT8, next, bytes, nullptr));
    ASSERT_FLOE_OK(receiving.wait());
    EXPECT_TRUE(in == std::vector<uint8_t>(bytes, static_cast<uint8_t>(previous)));
  }
}

// With the next rank, by turns in one call, one way and back, and posted together: as often as it takes to
// come to each way that long messages may go.
void long_messages(const Rank& r) {
  const uint32_t peer = r.rank ^ 1;
  if (peer >= r.size) return;
  const auto fill = [](uint32_t rank, int round) { return static_cast<uint8_t>(rank * 50 + round); };
  for (const size_t bytes : {1'200'000, 2'500'000, 6'000'001})
    for (int round = 0; round < (kSanitized ? 12 : 30); ++round) {
      std::vector<uint8_t> out(bytes, fill(r.rank, round)), in(bytes, 0xff);
      const auto send = [&](floe_request_t** request) {
        return floe_send(r.comm, out.data(), bytes, FLOE_UINT8, peer, 7, request);
      };
      const auto receive = [&](floe_request_t** request) {
        return floe_recv(r.comm, in.data(), bytes, FLOE_UINT8, peer, 7, request);
      };
      if (round % 3 == 0) {
        ASSERT_FLOE_OK(
            floe_sendrecv(r.comm, out.data(), bytes, peer, 7, in.data(), bytes, peer, 7, FLOE_UINT8));
      } else if (round % 3 == 1) {
        const bool first = r.rank < peer;
        ASSERT_FLOE_OK(first ? send(nullptr) : receive(nullptr));
        ASSERT_FLOE_OK(first ? receive(nullptr) : send(nullptr));
      } else {
        Request sending, receiving;
        ASSERT_FLOE_OK(receive(receiving.out()));
        ASSERT_FLOE_OK(send(sending.out()));
        ASSERT_FLOE_OK(sending.wait());
        ASSERT_FLOE_OK(receiving.wait());
      }
      ASSERT_TRUE(in == std::vector<uint8_t>(bytes, fill(peer, round))) << bytes << " bytes, round " << round;
    }
}

// Some are always under way, of which each may go another way.
void long_messages_of_a_tag(const Rank& r) {
  const uint32_t peer = r.rank ^ 1;
  if (peer >= r.size) return;
  constexpr size_t kMessages = kSanitized ? 24 : 60, kUnderWay = 3;
  struct Ended {
    std::mutex mutex;
    std::vector<size_t> numbers{};
  };
  struct Message {
    size_t number;
    Ended* ended;
    std::vector<uint8_t> data;
    Request request{};
  };
  const auto bytes = [](size_t number) { return 1'200'000 + number % 4 * 1'000'001; };
  const auto fill = [](uint32_t rank, size_t number) { return static_cast<uint8_t>(rank * 50 + number); };
  const auto complete = [](void* user, floe_status_t, const char*) {
    const auto* const message = static_cast<Message*>(user);
    const std::lock_guard lock(message->ended->mutex);
    message->ended->numbers.push_back(message->number);
  };
  Ended sent, received;
  std::deque<Message> out, in;
  for (size_t number = 0; number < kMessages + kUnderWay; ++number) {
    if (number >= kUnderWay) {
      ASSERT_FLOE_OK(in.front().request.wait());
      ASSERT_FLOE_OK(out.front().request.wait());
      const size_t ended = number - kUnderWay;
      ASSERT_TRUE(in.front().data == std::vector<uint8_t>(bytes(ended), fill(peer, ended))) << ended;
      in.pop_front();
      out.pop_front();
    }
    if (number >= kMessages) continue;
    in.push_back({number, &received, std::vector<uint8_t>(bytes(number))});
    out.push_back({number, &sent, std::vector<uint8_t>(bytes(number), fill(r.rank, number))});
    for (Message* const message : {&in.back(), &out.back()}) {
      std::vector<uint8_t>& data = message->data;
      floe_request_t** const request = message->request.out();
      ASSERT_FLOE_OK(message == &in.back()
                         ? floe_recv(r.comm, data.data(), data.size(), FLOE_UINT8, peer, 7, request)
                         : floe_send(r.comm, data.data(), data.size(), FLOE_UINT8, peer, 7, request));
      ASSERT_FLOE_OK(floe_request_on_complete(*request, complete, message));
    }
  }
  for (const Ended* ended : {&sent, &received}) {
    ASSERT_EQ(ended->numbers.size(), kMessages);
    EXPECT_TRUE(std::ranges::is_sorted(ended->numbers)) << testing::PrintToString(ended->numbers);
  }
}

bool shares_memory() {
  const char* const shm = std::getenv("FLOE_SHM");
  return !shm || std::string_view(shm) != "off";
}

using Body = void (*)(const Rank&);

class ProcessRanks : public testing::TestWithParam<uint32_t> {
 protected:
  static void run(Body body) {
    Processes(GetParam(), [&](uint32_t) {
      Member me;
      ASSERT_FLOE_OK(me.status());
      body(me.rank());
    }).expect_success();
  }
};

TEST_P(ProcessRanks, EveryCollectiveGivesTheOraclesResult) { run(every_collective); }
TEST_P(ProcessRanks, EveryCollectiveOfBlocksGivesTheOraclesResult) { run(every_collective_of_blocks); }
TEST_P(ProcessRanks, EveryTypeAndOperationGivesTheOraclesResult) { run(every_type_and_operation); }
TEST_P(ProcessRanks, RandomSequences) { run(random_sequences); }
TEST_P(ProcessRanks, ManySmallOnesBackToBack) { run(many_small_ones); }
TEST_P(ProcessRanks, MessagesAroundTheRing) { run(messages_around_the_ring); }
TEST_P(ProcessRanks, LongMessages) { run(long_messages); }
TEST_P(ProcessRanks, LongMessagesOfATagEndInOrder) { run(long_messages_of_a_tag); }

// Every second rank; the others may.
TEST(LongMessages, WhereNoMemoryOfPeersMayBeRead) {
  if (!shares_memory()) GTEST_SKIP() << "libfabric's shm may need to";
  Processes(2, [](uint32_t rank) {
    ASSERT_TRUE(rank == 0 || forbid(SYS_process_vm_readv));
    Member me;
    ASSERT_FLOE_OK(me.status());
    long_messages(me.rank());
  }).expect_success();
}

// In this order, since CMakeLists.txt leaves numbers 4 to 6 out where ranks are slow.
INSTANTIATE_TEST_SUITE_P(Ranks, ProcessRanks, testing::Values(2, 3, 4, 8, 5, 6, 7, 1));

// Processes of another user are on another host as far as floe knows: odd and even ranks share memory among
// themselves, and libfabric is between them.
class MixedPaths : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    if (!shares_memory()) GTEST_SKIP() << "nobody shares memory with FLOE_SHM=off";
    if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  }
  static void run(Body body) {
    constexpr uid_t kNobody = 65534;
    Processes(GetParam(), [&](uint32_t rank) {
      if (rank % 2 == 1) {
        ASSERT_EQ(0, seteuid(kNobody)) << std::strerror(errno);
      }
      Member me;
      ASSERT_FLOE_OK(me.status());
      floe_comm_info_t info = FLOE_COMM_INFO_INIT;
      ASSERT_FLOE_OK(floe_comm_info(me.comm(), &info));
      EXPECT_EQ((info.size + 1 - rank % 2) / 2, info.local_size);
      body(me.rank());
    }).expect_success();
  }
};

TEST_P(MixedPaths, EveryCollectiveGivesTheOraclesResult) { run(every_collective); }
TEST_P(MixedPaths, EveryCollectiveOfBlocksGivesTheOraclesResult) { run(every_collective_of_blocks); }
TEST_P(MixedPaths, EveryTypeAndOperationGivesTheOraclesResult) { run(every_type_and_operation); }
TEST_P(MixedPaths, RandomSequences) { run(random_sequences); }
TEST_P(MixedPaths, ManySmallOnesBackToBack) { run(many_small_ones); }
TEST_P(MixedPaths, MessagesAroundTheRing) { run(messages_around_the_ring); }
TEST_P(MixedPaths, LongMessages) { run(long_messages); }
TEST_P(MixedPaths, LongMessagesOfATagEndInOrder) { run(long_messages_of_a_tag); }

INSTANTIATE_TEST_SUITE_P(Ranks, MixedPaths, testing::Values(3, 4, 8));

// As many as Gloo's ranks have, at most, and nearly all of them go with the communicator.
TEST(Descriptors, AreFew) {
  // A second rail has an endpoint, and connections, of its own.
  const size_t most = std::getenv("FLOE_RAILS") ? 43 : 31;
  Processes(4, [most](uint32_t) {
    const size_t before = open_descriptors();
    Member me;
    ASSERT_FLOE_OK(me.status());
    Exercise(me.rank(), {.count = 10'000}, 1).run();
    EXPECT_LE(open_descriptors(), before + most);
    ASSERT_FLOE_OK(floe_barrier(me.comm(), nullptr));
  }).expect_success();
}

// A killed rank is named by all, those included that reach it over libfabric only: whoever shares its host
// tells them.
TEST(MixedDeath, IsNamedByAllWithinASecond) {
  if (!shares_memory()) GTEST_SKIP() << "nobody shares memory with FLOE_SHM=off";
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  constexpr uint32_t kRanks = 4, kVictim = 2;
  const auto attempt = [] {
    Processes processes(kRanks, [](uint32_t rank) {
      if (rank % 2 == 1) {
        ASSERT_EQ(0, seteuid(65534)) << std::strerror(errno);
      }
      Member me;
      ASSERT_FLOE_OK(me.status());
      float value = 1;
      floe_status_t status = FLOE_OK;
      Report& report = Processes::report(rank);
      do {
        report.stage.fetch_add(1);
        status = floe_all_reduce(me.comm(), FLOE_IN_PLACE, &value, 1, FLOE_FLOAT32, FLOE_MAX, nullptr);
      } while (status == FLOE_OK);
      report.note(status);
      EXPECT_EQ(FLOE_ERR_PEER, status) << floe_last_error();
      EXPECT_NE(nullptr, std::strstr(floe_last_error(), "rank 2 ")) << floe_last_error();
    });
    EXPECT_TRUE(processes.wait_for_stage(20));
    const double killed = steady_seconds();
    processes.signal(kVictim, SIGKILL);
    processes.expect_success(std::chrono::seconds(40), kVictim);
    double last = killed;
    for (const uint32_t rank : {0, 1, 3}) last = std::max(last, Processes::report(rank).at.load());
    return last - killed;
  };
  double took = 0;
  for (int i = 0; i < 3 && (took = attempt()) > 1 && !HasFailure(); ++i) continue;
  EXPECT_LE(took, 1);
}

// Ranks that expect different times would choose different protocols, and wait for ever.
TEST(Environment, WhatDiffersIsAnErrorOnAllRanks) {
  for (const auto& [name, value] : {std::pair("FLOE_COST_MODEL", "flag=77"), {"FLOE_WIRE_DTYPE", "bf16"}})
    Processes(2, [name = name, value = value](uint32_t rank) {
      if (rank == 1) setenv(name, value, 1);
      Member me(5000);
      EXPECT_EQ(FLOE_ERR_MISMATCH, me.status()) << floe_last_error();
      for (const char* words : {name, value, "the same on all ranks"})
        EXPECT_NE(std::string::npos, std::string(floe_last_error()).find(words)) << floe_last_error();
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
    testing::Values(
        WrongEnvironment{"NoRank", {{"RANK", ""}}, "RANK"},
        WrongEnvironment{"NoSize", {{"WORLD_SIZE", ""}}, "WORLD_SIZE"},
        WrongEnvironment{"RankTooLarge", {{"RANK", "1"}}, "RANK"},
        WrongEnvironment{"RankIsText", {{"RANK", "first"}}, "first"},
        WrongEnvironment{"RankIsNegative", {{"RANK", "-1"}}, "-1"},
        WrongEnvironment{"SizeIsZero", {{"WORLD_SIZE", "0"}}, "WORLD_SIZE"},
        WrongEnvironment{"SizeIsHuge", {{"WORLD_SIZE", "99999999999999999999"}}, "WORLD_SIZE"},
        WrongEnvironment{"PortIsText", {{"WORLD_SIZE", "2"}, {"MASTER_PORT", "http"}}, "MASTER_PORT"},
        WrongEnvironment{"ShmIsMaybe", {{"FLOE_SHM", "maybe"}}, "on, off"},
        WrongEnvironment{"WireTypeIsNone", {{"FLOE_WIRE_DTYPE", "fp8"}}, "fp32, bf16"},
        WrongEnvironment{"IsaIsUnknown", {{"FLOE_ISA", "mmx"}}, "FLOE_ISA"},
        WrongEnvironment{"CostIsNoNumber", {{"FLOE_COST_MODEL", "small=fast"}}, "return_line_kib"},
        WrongEnvironment{"TimeoutIsZero", {{"FLOE_TIMEOUT_MS", "0"}}, "FLOE_TIMEOUT_MS"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace floe::test
