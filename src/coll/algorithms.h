// Collective algorithms: pure functions from (ranks, rank, bytes) to a schedule. Costs are per rank, with
// alpha the time of a message, beta that of a byte on the wire and gamma that of adding one.
//
// Buffers: kSend is the caller's input and may be the same memory as kRecv (in place), so a step that
// overwrites part of kRecv needs every step that still reads this part of kSend.
#pragma once

#include <cstdint>

#include "engine/schedule.h"

namespace floe {

// The elements of a collective: `count` of `element` bytes each.
struct Elements {
  uint64_t count = 0;
  uint64_t element = 1;
  uint64_t bytes() const { return count * element; }
};

// Part `index` of `parts` near-equal contiguous parts of `all`, as bytes of `buffer`.
Range part(Buffer buffer, Elements all, uint32_t parts, uint32_t index);

// Every rank sends all to all and adds in rank order: one crossing, for small messages.
// alpha + (n-1) * bytes * (beta + gamma).
Schedule exchange_all_reduce(uint32_t ranks, uint32_t rank, Elements data);

// Direct reduce-scatter, then direct all-gather: the bytes of a ring, but the owner of a part sees all
// contributions at once, so that it adds them in rank order and rounds once (16-bit floats).
// 2 alpha + 2 (n-1)/n * bytes * beta + (n-1)/n * bytes * gamma.
Schedule direct_all_reduce(uint32_t ranks, uint32_t rank, Elements data);

// The cheaper of the two.
Schedule all_reduce(uint32_t ranks, uint32_t rank, Elements data);

// Direct reduce-scatter, then each owner sends its part to the root.
// 2 alpha + (n-1)/n * bytes * (2 beta + gamma) at the root.
Schedule reduce(uint32_t ranks, uint32_t rank, Elements data, uint32_t root);

// Binomial tree (Chan et al. 2007, "Collective communication: theory, practice, and experience", 3.1).
// log2(n) * (alpha + bytes * beta). Uses kRecv only.
Schedule broadcast(uint32_t ranks, uint32_t rank, Elements data, uint32_t root);

// Every rank sends its block to all others: alpha + (n-1) * bytes * beta.
// kSend is this rank's block, unless in_place: then it is already in its place in kRecv.
Schedule all_gather(uint32_t ranks, uint32_t rank, Elements block, bool in_place);

// Every rank sends block i of its n blocks to rank i, which adds them in rank order.
// alpha + (n-1) * bytes * (beta + gamma).
Schedule reduce_scatter(uint32_t ranks, uint32_t rank, Elements block);

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
