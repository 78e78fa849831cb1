// Ranks as threads on one mapping, and what each of their collectives should move.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/types.h"
#include "shm/direct.h"

namespace floe {

inline std::vector<std::shared_ptr<Segment>> make_segments(uint32_t ranks) {
  std::vector<std::shared_ptr<Segment>> segments;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto segment = Segment::create(ranks, rank, 1000 + rank);
    EXPECT_TRUE(segment.ok()) << segment.status().message();
    segments.push_back(*segment);
  }
  return segments;
}

inline Poll run(DirectOperation& op) {
  while (true) {
    const Poll poll = op.poll();
    if (poll == Poll::kDone || poll == Poll::kMismatch) return poll;
    if (poll == Poll::kPending) std::this_thread::yield();
  }
}

// So that most results stay in the cache, and the largest ones don't.
constexpr uint64_t kCacheBytes = 100'000;

template <class F>
void on_ranks(uint32_t ranks, F&& body, std::string_view cost_model = "") {
  const auto segments = make_segments(ranks);
  const Choices choices(*CostModel::create(cost_model), {ranks});
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      DirectPath path(segments, rank, choices, {}, kCacheBytes);
      body(path, rank);
    });
  for (auto& thread : threads) thread.join();
}

struct Collective {
  const char* name;
  Pattern pattern;
};
constexpr Collective kCollectives[] = {{"AllReduce", pattern::kAllReduce},
                                       {"Reduce", pattern::kReduce},
                                       {"ReduceScatter", pattern::kReduceScatter},
                                       {"Broadcast", pattern::kBroadcast},
                                       {"AllGather", pattern::kAllGather},
                                       {"Gather", pattern::kGather},
                                       {"Scatter", pattern::kScatter},
                                       {"AllToAll", pattern::kAllToAll}};

// Element i of the block that `from` has for `to` in a round.
inline int32_t value(uint32_t from, uint32_t to, int round, uint64_t i) {
  return static_cast<int32_t>(from * 100'000 + to * 10'000 + static_cast<uint32_t>(round) * 131 + i % 4099);
}

// What rank `self` has to find in its receive buffer, block by block; no block where it gets nothing.
class Expected {
 public:
  Expected(Pattern pattern, uint32_t ranks, uint32_t self, uint32_t root)
      : pattern_(pattern), ranks_(ranks), self_(self), root_(root) {}
  bool is(Pattern::Ranks set, uint32_t rank) const {
    return set == Pattern::Ranks::kAll || (set == Pattern::Ranks::kRoot) == (rank == root_);
  }
  bool gets() const {
    const bool own = pattern_.block_each && is(pattern_.publish, self_) && !pattern_.reduces;
    return own || is(pattern_.read, self_);
  }
  uint32_t blocks() const {
    return pattern_.reduces || pattern_.publish == Pattern::Ranks::kRoot ? 1 : ranks_;
  }
  int32_t at(uint32_t block, int round, uint64_t i) const {
    const uint32_t to = pattern_.block_each ? self_ : 0;
    if (!pattern_.reduces)
      return value(pattern_.publish == Pattern::Ranks::kRoot ? root_ : block, to, round, i);
    int32_t sum = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) sum += value(rank, to, round, i);
    return sum;
  }

 private:
  Pattern pattern_;
  uint32_t ranks_, self_, root_;
};

// One collective on this rank, with data that no other round has.
inline void check(DirectPath& path, Pattern pattern, uint32_t root, uint64_t count, int round) {
  const uint32_t self = path.self(), ranks = path.ranks();
  const Expected expected(pattern, ranks, self, root);
  std::vector<int32_t> send(count * ranks), recv(count * ranks, -1), wanted(recv);
  for (uint32_t to = 0; to < (pattern.block_each ? ranks : 1); ++to)
    for (uint64_t i = 0; i < count; ++i) send[to * count + i] = value(self, to, round, i);
  for (uint32_t block = 0; expected.gets() && block < expected.blocks(); ++block)
    for (uint64_t i = 0; i < count; ++i) wanted[block * count + i] = expected.at(block, round, i);
  auto op = path.make({pattern, send.data(), recv.data(), count, FLOE_INT32, FLOE_SUM, root, 9});
  ASSERT_EQ(run(op), Poll::kDone);
  const auto [wrong, right] = std::mismatch(recv.begin(), recv.end(), wanted.begin());
  ASSERT_EQ(wrong, recv.end()) << "rank " << self << " root " << root << " round " << round << " element "
                               << wrong - recv.begin() << " of " << ranks << " x " << count << ": " << *wrong
                               << " for " << *right;
}

}  // namespace floe
