// Which times of a peer's word say that its core has moved.
#include "shm/peer_distance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>

namespace floe {
namespace {

int changes(PeerDistance& distance, std::initializer_list<uint64_t> times) {
  int count = 0;
  for (const uint64_t took : times) count += distance.changed(took) ? 1 : 0;
  return count;
}

TEST(PeerDistance, ChangesWhereEightInARowSaySo) {
  PeerDistance distance;
  EXPECT_EQ(0, changes(distance, {147, 122, 147, 147, 172}));
  EXPECT_EQ(0, changes(distance, {367, 392, 367, 343, 588, 367, 392}));
  EXPECT_EQ(1, changes(distance, {392}));
  EXPECT_EQ(0, changes(distance, {367, 392, 343, 588}));
  EXPECT_EQ(1, changes(distance, {98, 122, 147, 98, 98, 98, 74, 98}));
}

TEST(PeerDistance, SingleOnesDoNotCount) {
  PeerDistance distance;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(0, changes(distance, {367, 49, 392, 2205, 661, 343}));
}

TEST(PeerDistance, ACoarseClockSaysNothing) {
  PeerDistance distance;
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(0, changes(distance, {1, 1, 1, 1, 1, 1, 1, 1, 7, 7, 7, 7, 7, 7, 7, 7}));
}

TEST(PeerDistance, AWordThatHasNotChangedSaysNothing) {
  PeerDistance distance;
  const std::atomic<uint32_t> word{0};
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(distance.changed(word));
}

}  // namespace
}  // namespace floe
