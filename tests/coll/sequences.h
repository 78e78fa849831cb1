// Random sequences of everything: each rank draws the same calls from the same seed, so what is wrong in how
// operations follow each other shows, and shows again with that seed.
#pragma once

#include <cstdint>

#include "ranks.h"

namespace floe::test {

// Collectives, blocking and not, and messages on one communicator.
void sequence_of_calls(const Rank& rank, uint64_t seed);

// The same on several communicators of the same ranks. Legal: on each of them all ranks call the same in the
// same order; between communicators, messages and what is waited for first each rank has an order of its own.
void sequences_on_several(const Rank& world, uint64_t seed);

}  // namespace floe::test
