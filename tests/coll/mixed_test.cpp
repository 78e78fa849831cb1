// Random sequences of everything, on ranks that are threads.
#include "sequences.h"

namespace floe::test {
namespace {

class Mixed : public testing::TestWithParam<uint64_t> {
 protected:
  static void run(void (*sequence)(const Rank&, uint64_t)) {
    const uint64_t seed = GetParam();
    run_ranks(2 + seed % 4, [&](Rank& r) { sequence(r, seed); }, {.workers = static_cast<int32_t>(seed % 2)});
  }
};

TEST_P(Mixed, SequencesOfCalls) { run(sequence_of_calls); }
TEST_P(Mixed, OrdersOfTheirOwnOnSeveralCommunicators) { run(sequences_on_several); }

INSTANTIATE_TEST_SUITE_P(Seed, Mixed, testing::Range<uint64_t>(1, 11));

}  // namespace
}  // namespace floe::test
