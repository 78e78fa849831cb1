#include "sequences.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "block_exercise.h"
#include "exercise.h"

namespace floe::test {
namespace {

struct Outstanding {
  std::unique_ptr<Exercise> exercise;
  Request request;
};

uint64_t any_count(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0: return random() % 4;
    case 1: return random() % 300;
    case 2: return random() % 10'000;
    default: return random() % (kSanitized ? 50'000 : 200'000);
  }
}

Shape any_shape(std::mt19937_64& random, uint32_t size) {
  Shape shape;
  shape.collective = all_collectives()[random() % all_collectives().size()];
  shape.type = all_types()[random() % all_types().size()];
  shape.op = all_ops()[random() % all_ops().size()];
  if (!supported(shape.type, shape.op)) shape.op = FLOE_SUM;
  shape.count = any_count(random) / size;
  shape.root = static_cast<uint32_t>(random() % size);
  shape.in_place = random() % 2;
  shape.misalign = random() % 3 ? 0 : random() % 64;
  return shape;
}

void finish(Outstanding& call) {
  ASSERT_FLOE_OK(call.request.wait());
  EXPECT_TRUE(call.exercise->check());
}

// A message around the ring while collectives are under way.
void pass_on(const Rank& r, uint64_t tag, size_t bytes) {
  std::vector<uint8_t> out(bytes, static_cast<uint8_t>(r.rank + tag)), in(bytes);
  const uint32_t next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
  Request receiving, sending;
  ASSERT_FLOE_OK(floe_recv(r.comm, in.data(), bytes, FLOE_UINT8, previous, tag, receiving.out()));
  ASSERT_FLOE_OK(floe_send(r.comm, out.data(), bytes, FLOE_UINT8, next, tag, sending.out()));
  ASSERT_FLOE_OK(sending.wait());
  ASSERT_FLOE_OK(receiving.wait());
  const auto want = static_cast<uint8_t>(previous + tag);
  EXPECT_TRUE(std::all_of(in.begin(), in.end(), [&](uint8_t byte) { return byte == want; })) << "tag " << tag;
}

// Something under way on one of several communicators: of whichever kind, with its check.
struct Started {
  Request request;
  std::function<testing::AssertionResult()> check;
};

template <class Call>
Started started(std::shared_ptr<Call> call, const std::string& what) {
  Started result;
  EXPECT_FLOE_OK(call->start(result.request.out())) << what;
  result.check = [call = std::move(call)] { return call->check(); };
  return result;
}

BlockShape any_block_shape(std::mt19937_64& random, uint32_t size) {
  BlockShape shape;
  shape.collective = all_block_collectives()[random() % all_block_collectives().size()];
  shape.type = all_types()[random() % all_types().size()];
  if (!supported(shape.type, shape.op)) shape.op = FLOE_MAX;
  shape.largest = any_count(random) / 8;
  shape.root = static_cast<uint32_t>(random() % size);
  shape.in_place = random() % 2;
  shape.gaps = random() % 2;
  return shape;
}

// The next call on a communicator, the same on all its ranks.
Started next_call(const Rank& r, std::mt19937_64& common) {
  const bool blocks = common() % 2;
  const uint64_t seed = common();
  if (blocks) {
    const BlockShape shape = any_block_shape(common, r.size);
    return started(std::make_shared<BlockExercise>(r, shape, seed % 100'000), shape.text());
  }
  const Shape shape = any_shape(common, r.size);
  return started(std::make_shared<Exercise>(r, shape, seed % 100'000), shape.text());
}

// A number from this rank to the next one.
Started send_next(const Rank& r, uint64_t number) {
  Started result;
  auto data = std::make_shared<uint64_t>(number * 100 + r.rank);
  EXPECT_FLOE_OK(
      floe_send(r.comm, data.get(), 1, FLOE_UINT64, (r.rank + 1) % r.size, number, result.request.out()));
  result.check = [data] { return testing::AssertionSuccess(); };
  return result;
}
Started receive_previous(const Rank& r, uint64_t number) {
  Started result;
  auto data = std::make_shared<uint64_t>(0);
  const uint32_t previous = (r.rank + r.size - 1) % r.size;
  EXPECT_FLOE_OK(floe_recv(r.comm, data.get(), 1, FLOE_UINT64, previous, number, result.request.out()));
  result.check = [=] {
    return *data == number * 100 + previous ? testing::AssertionSuccess()
                                            : testing::AssertionFailure() << *data;
  };
  return result;
}

}  // namespace

void sequence_of_calls(const Rank& r, uint64_t seed) {
  std::mt19937_64 common(seed);              // what is called: the same on all ranks
  std::mt19937_64 own(seed * 100 + r.rank);  // when this rank waits for it
  std::deque<Outstanding> calls;
  for (uint64_t i = 0; i < (kSanitized ? 60 : 250); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", call " + std::to_string(i));
    const Shape shape = any_shape(common, r.size);
    const bool blocking = common() % 3 == 0;
    if (common() % 5 == 0) pass_on(r, i, common() % 100'000);
    Outstanding call{std::make_unique<Exercise>(r, shape, seed * 1000 + i), {}};
    if (blocking) {
      call.exercise->run();
    } else {
      ASSERT_FLOE_OK(call.exercise->start(call.request.out())) << shape.text();
      calls.push_back(std::move(call));
    }
    while (calls.size() > 8 || (!calls.empty() && own() % 3 == 0)) {
      const auto pick = calls.begin() + static_cast<ptrdiff_t>(own() % calls.size());
      finish(*pick);
      std::swap(*pick, calls.front());
      calls.pop_front();
    }
  }
  for (auto& call : calls) finish(call);
}

void sequences_on_several(const Rank& world, uint64_t seed) {
  std::vector<Rank> ranks = {world};
  for (const bool reversed : {false, true}) {
    floe_comm_t* comm = nullptr;
    const auto key = static_cast<int32_t>(world.rank);
    ASSERT_FLOE_OK(floe_comm_split(world.comm, 0, reversed ? -key : key, &comm));
    ranks.push_back(described(world, comm));
  }
  std::vector<std::mt19937_64> common;
  for (uint64_t i = 0; i < ranks.size(); ++i) common.emplace_back(seed * 10 + i);
  std::mt19937_64 own(seed * 100 + world.rank);
  for (uint64_t round = 0; round < (kSanitized ? 4 : 15); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    std::vector<std::function<Started()>> todo;
    for (size_t i = 0; i < ranks.size(); ++i) {
      for (int call = 0; call < 4; ++call) todo.push_back([&, i] { return next_call(ranks[i], common[i]); });
      todo.push_back([&, i] { return send_next(ranks[i], round); });
      todo.push_back([&, i] { return receive_previous(ranks[i], round); });
    }
    std::shuffle(todo.begin(), todo.end(), own);
    std::vector<Started> calls;
    for (const auto& start : todo) calls.push_back(start());
    std::shuffle(calls.begin(), calls.end(), own);
    for (Started& call : calls) {
      ASSERT_FLOE_OK(call.request.wait());
      EXPECT_TRUE(call.check());
    }
  }
  for (size_t i = 1; i < ranks.size(); ++i) EXPECT_FLOE_OK(floe_comm_destroy(ranks[i].comm));
}

}  // namespace floe::test
