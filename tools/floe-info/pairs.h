// Under a launcher: the ranks connect as any job would, and each pair of them measures what is between it.
#pragma once

#include <cstdint>
#include <optional>

#include "findings.h"
#include "network.h"

namespace floe::info {

// In round `round` of `size` - 1 (of `size` if that is odd) each rank has a partner of its own, and meets all
// in all rounds: a round-robin tournament. `rank` itself: it rests.
inline uint32_t partner(uint32_t rank, uint32_t size, uint32_t round) {
  const uint32_t players = size + size % 2, circle = players - 1;
  const auto opponent = [&](uint32_t one) { return (round + circle - one) % circle; };
  uint32_t other = circle;  // the last player stands still, and meets who would meet itself
  if (rank != circle) {
    if (opponent(rank) != rank) other = opponent(rank);
  } else {
    for (uint32_t one = 0; one < circle; ++one)
      if (opponent(one) == one) other = one;
  }
  return other < size ? other : rank;
}
inline uint32_t rounds(uint32_t size) { return size - 1 + size % 2; }

// `seconds` in all, though a round takes 0.1 s at least. All ranks call it; rank 0 hears of all pairs.
void check_pairs(Findings& findings, const Job& job, const std::optional<Interface>& used, double seconds);

}  // namespace floe::info
