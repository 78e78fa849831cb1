// Collective algorithms: pure functions from (ranks, rank, bytes) to a schedule. Costs are per rank, with
// alpha the time of a message, beta that of a byte on the wire and gamma that of adding one.
//
// Buffers: kSend is the caller's input and may be the same memory as kRecv (in place), so a step that
// overwrites part of kRecv needs every step that still reads this part of kSend.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/schedule.h"

namespace floe {

// The elements of a collective: `count` of `element` bytes each.
struct Elements {
  uint64_t count = 0;
  uint64_t element = 1;
  uint64_t bytes() const { return count * element; }
};

// Where the block of each rank lies in a buffer, in bytes.
struct Block {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  Range in(Buffer buffer) const { return {buffer, offset, bytes}; }
};
using Blocks = std::vector<Block>;

// Blocks of `bytes` each, back to back.
Blocks equal_blocks(uint32_t ranks, uint64_t bytes);

// Part `index` of `parts` near-equal contiguous parts of `all`, as bytes of `buffer`.
Range part(Buffer buffer, Elements all, uint32_t parts, uint32_t index);

// Every rank sends all to all and adds in rank order, in chunks: one crossing, for two ranks and for small
// messages. alpha + (n-1) * bytes * (beta + gamma).
Schedule exchange_all_reduce(uint32_t ranks, uint32_t rank, Elements data);

// Direct reduce-scatter, then direct all-gather: the bytes of a ring, but the owner of a part sees all
// contributions at once, so that it adds them in rank order and rounds once (16-bit floats). In chunks: while
// one is on its way another is added.
// 2 alpha + 2 (n-1)/n * bytes * beta + (n-1)/n * bytes * gamma.
Schedule direct_all_reduce(uint32_t ranks, uint32_t rank, Elements data);

// Ring (Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 3).
// Each part goes once around and is added on the way, so its sum starts at another rank than that of other
// parts, and is rounded at each. A rank sends to one peer and receives from one: nothing ever meets at a
// receiver, and hosts of consecutive ranks send everything once. 2(n-1) alpha + as above.
Schedule ring_all_reduce(uint32_t ranks, uint32_t rank, Elements data);

// The cheapest of the three; the ring only if sums may be taken `in_any_order`.
Schedule all_reduce(uint32_t ranks, uint32_t rank, Elements data, bool in_any_order);
// Whether sending all to all ranks takes less time than one more message would.
bool costs_less_than_a_crossing(uint32_t ranks, Elements data);

// float32 that travels as bfloat16 to and from the ranks that are `apart` (by rank, and mutual), by the
// direct algorithm. What is rounded is what a rank gives to an owner that is apart, and each sum, once; sums
// are float32, in rank order, and all ranks end with the same bits.
//
// Error. With u = 2^-8, half the distance of two bfloat16 by their size, x the ranks' elements, S their sum
// and A the sum of their sizes: contributions x(1 + d), |d| <= u, add in float32 to s, |s - S| <= uA + g(1 +
// u)A with g = (n-1) 2^-24, and the result is s(1 + d). So |result - S| <= u |S| + (1 + u)(u + g(1 + u)) A,
// less than A/127 up to 64 ranks; besides, 2^-134 for each rank where numbers are subnormal. 2^128 - 2^119
// and more is infinity. 2 alpha + (n-1)/n * bytes * (beta + gamma).
Schedule narrow_all_reduce(uint32_t ranks, uint32_t rank, Elements data, const std::vector<bool>& apart);

// Direct reduce-scatter, then each owner sends its part to the root.
// 2 alpha + (n-1)/n * bytes * (2 beta + gamma) at the root.
Schedule reduce(uint32_t ranks, uint32_t rank, Elements data, uint32_t root);

// Binomial tree (Chan et al. 2007, "Collective communication: theory, practice, and experience", 3.1).
// log2(n) * (alpha + bytes * beta). Uses kRecv only.
Schedule broadcast(uint32_t ranks, uint32_t rank, Elements data, uint32_t root);

// An empty block is a message like any other: the receiver of one that ought not to be empty finds out.

// Every rank sends its block to all others: alpha + (n-1) * bytes * beta for equal blocks.
// kSend is this rank's block, unless in_place: then it is already in its place in kRecv.
Schedule all_gather(uint32_t rank, const Blocks& to, bool in_place);

// Every rank sends block i of its blocks to rank i, which adds them in rank order.
// alpha + (n-1) * bytes * (beta + gamma) for equal blocks.
Schedule reduce_scatter(uint32_t rank, const Blocks& from);

// Pairwise exchange (Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication operations
// in MPICH"), some exchanges at a time. n/8 * alpha + (n-1) * bytes * beta for equal blocks.
// `from` lies in kSend and `to` in kRecv. In place there is no kSend, `from` is not used, and two ranks'
// blocks for each other have the same size; up to 8 blocks of scratch.
Schedule all_to_all(uint32_t rank, const Blocks& from, const Blocks& to, bool in_place);

// Every rank sends its block, kSend, to the root, which has it in kRecv. alpha + (n-1) * bytes * beta.
// `bytes` is of a rank that is not the root, `to` is the root's.
Schedule gather(uint32_t rank, uint64_t bytes, const Blocks& to, uint32_t root);

// The root sends each rank its block of kSend, which has it in kRecv. alpha + (n-1) * bytes * beta.
// `from` is the root's, `bytes` is of a rank that is not the root.
Schedule scatter(uint32_t rank, const Blocks& from, uint64_t bytes, uint32_t root);

// A reduction whose ranks have factors (premul-sum): they exchange them, a double each, before they add. They
// end in scratch at `at`, in rank order; this rank's own must be in its place from the start. Adds 8 bytes to
// every rank, which overlap with the first messages. Needs reductions whose sources are all ranks', in order.
struct WithFactors {
  Schedule schedule;
  uint64_t at = 0;
};
WithFactors with_factors(const Schedule& reduction, uint32_t ranks, uint32_t rank);

// Dissemination (Hensgen, Finkel & Manber 1988): ceil(log2 n) rounds of empty messages.
Schedule barrier(uint32_t ranks, uint32_t rank);

}  // namespace floe
