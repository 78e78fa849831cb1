// Random sequences of everything: each rank draws the same calls from the same seed, so what is wrong in
// how operations follow each other shows, and shows again with that seed.
#include <algorithm>
#include <deque>
#include <memory>
#include <random>

#include "exercise.h"

namespace floe::test {
namespace {

class Mixed : public testing::TestWithParam<uint64_t> {};

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

void sequence(Rank& r, uint64_t seed) {
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

TEST_P(Mixed, SequencesOfCalls) {
  const uint64_t seed = GetParam();
  run_ranks(2 + seed % 4, [&](Rank& r) { sequence(r, seed); }, {.workers = static_cast<int32_t>(seed % 2)});
}

INSTANTIATE_TEST_SUITE_P(Seed, Mixed, testing::Range<uint64_t>(1, 11));

}  // namespace
}  // namespace floe::test
