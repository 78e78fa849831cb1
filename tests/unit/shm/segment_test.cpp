#include "shm/segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

namespace floe {
namespace {

using testing::HasSubstr;

TEST(SegmentLayout, FitsIntoFourMebibytesUpToEightRanks) {
  for (uint32_t ranks = 2; ranks <= 8; ++ranks)
    EXPECT_LE(SegmentLayout(ranks).total, size_t{4} << 20) << ranks;
}

TEST(SegmentLayout, PartsDoNotOverlap) {
  for (const uint32_t ranks : {2, 3, 8, 64}) {
    auto segment = Segment::create(ranks, 1, 42);
    ASSERT_TRUE(segment.ok());
    constexpr size_t kLineSlot = SegmentLayout::kLineSlot, kHalfLineSlot = SegmentLayout::kHalfLineSlot;
    EXPECT_LE(SegmentLayout::narrow_offset(1, SegmentLayout::kSmallSlots, kLineSlot),
              (*segment)->layout().exchange - (*segment)->layout().small);
    const Segment& s = **segment;
    const auto* base = reinterpret_cast<const std::byte*>(&s.header());
    std::set<std::pair<size_t, size_t>> parts;  // begin, end
    const auto add = [&](const void* at, size_t bytes) {
      const auto begin = static_cast<size_t>(static_cast<const std::byte*>(at) - base);
      parts.emplace(begin, begin + bytes);
    };
    size_t count = 1;
    add(base, sizeof(SegmentHeader));
    for (uint32_t peer = 0; peer < ranks; ++peer, ++count) add(&s.cursors(peer), sizeof(RingCursors));
    for (uint32_t index = 0; index < SegmentLayout::kValues; ++index, ++count)
      add(s.value(index), SegmentLayout::kValueBytes);
    add(s.outbox(0), s.layout().outbox_bytes);
    add(s.exchange(), SegmentLayout::kExchangeBytes);
    count += 2;
    for (uint32_t turn = 0; turn < SegmentLayout::kSmallSlots; ++turn, count += 3) {
      add(s.small_slot(turn), SegmentLayout::kSmallSlotBytes);
      for (const size_t bytes : {kLineSlot, kHalfLineSlot}) {
        add(s.narrow_slot(turn, bytes), bytes);
        EXPECT_EQ(0u, (s.narrow_slot(turn, bytes) - base) % bytes) << "on one line";
      }
    }
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == 1) continue;
      add(s.ring(peer), s.layout().ring_bytes);
      add(s.swap_buffers(peer), SegmentLayout::kSwapBuffers * s.layout().swap_distance());
      count += 2;
      EXPECT_EQ(s.swap_buffers(peer), s.ring(peer) + s.layout().ring_bytes) << "rings go on through them";
      EXPECT_EQ(s.layout().blocks_in_outbox(), ranks == 2);
      if (s.layout().blocks_in_outbox()) {
        EXPECT_EQ(s.blocks(peer), s.outbox(0));
        EXPECT_LE(s.layout().blocks_bytes(), s.layout().outbox_bytes);
      } else {
        add(s.blocks(peer), s.layout().blocks_bytes());
        ++count;
      }
    }
    EXPECT_EQ(parts.size(), count);
    size_t end = 0;
    for (const auto& [begin, until] : parts) {
      EXPECT_GE(begin, end);
      end = until;
    }
    EXPECT_LE(end, s.layout().total);
  }
}

TEST(Segment, RefusesMoreRanksThanItHasRoomFor) {
  const SegmentLayout most(SegmentLayout::kMostRanks);
  EXPECT_GE(most.ring_bytes, size_t{16} << 10);
  EXPECT_LE(most.ring_bytes, size_t{64} << 10);
  EXPECT_EQ(FLOE_ERR_UNSUPPORTED, Segment::create(SegmentLayout::kMostRanks + 1, 0, 1).status().code());
}

TEST(Segment, APeerSeesWhatTheOwnerWrites) {
  auto own = Segment::create(2, 0, 7);
  ASSERT_TRUE(own.ok());
  (*own)->header().put.store(77);
  auto peer = Segment::attach(UniqueFd(::fcntl((*own)->fd(), F_DUPFD_CLOEXEC, 0)), 2, 0, 7);
  ASSERT_TRUE(peer.ok()) << peer.status().message();
  EXPECT_EQ((*peer)->header().put.load(), 77u);
}

TEST(Segment, AThreadOfTheSameProcessGetsTheSameMapping) {
  auto own = Segment::create(2, 0, 99);
  auto peer = Segment::attach(UniqueFd(::fcntl((*own)->fd(), F_DUPFD_CLOEXEC, 0)), 2, 0, 99);
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(*own, *peer);
}

TEST(Segment, RefusesAWrongNonceSizeOrUnsealedMemory) {
  auto own = Segment::create(2, 0, 123);
  const auto dup = [&] { return UniqueFd(::fcntl((*own)->fd(), F_DUPFD_CLOEXEC, 0)); };
  EXPECT_THAT(Segment::attach(dup(), 2, 0, 124).status().message(), HasSubstr("nonce"));
  EXPECT_THAT(Segment::attach(dup(), 2, 1, 125).status().message(), HasSubstr("nonce"));
  EXPECT_THAT(Segment::attach(dup(), 20, 0, 126).status().message(), HasSubstr("sealed memfd"));
  UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(SegmentLayout(2).total)), 0);
  EXPECT_THAT(Segment::attach(std::move(unsealed), 2, 0, 127).status().message(), HasSubstr("sealed memfd"));
}

TEST(Segment, RefusesAPeerThatCutsBlocksOtherwise) {
  auto own = Segment::create(2, 0, 128);
  SegmentHeader& header = (*own)->header();
  header.nonce = 129;  // by which it is not found among this process's own
  header.block_bytes = SegmentLayout(2).block_bytes + 4096;
  const Status refused =
      Segment::attach(UniqueFd(::fcntl((*own)->fd(), F_DUPFD_CLOEXEC, 0)), 2, 0, 129).status();
  EXPECT_EQ(refused.code(), FLOE_ERR_ENVIRONMENT);
  EXPECT_THAT(refused.message(), HasSubstr("local rank 0 takes its CPU for another make"));
}

TEST(Flag, KeepsCounterAndHashApart) {
  const uint64_t word = Flag::word(123456789, 0xabcdef12);
  EXPECT_EQ(Flag::counter(word), 123456789u);
  EXPECT_EQ(Flag::hash(word), 0xcdef12u);
}

}  // namespace
}  // namespace floe
