// Calls with wrong arguments: found before anything is sent, said in words, and the communicator goes on.
#pragma once

#include <array>
#include <string>

#include "exercise.h"

namespace floe::test {

constexpr auto kBadType = static_cast<floe_type_t>(77);
constexpr auto kBadOp = static_cast<floe_op_t>(-1);

// The call fails with this status and says something.
inline void expect_refused(floe_status_t want, floe_status_t got, const char* words) {
  EXPECT_EQ(want, got) << floe_status_string(got) << ": " << floe_last_error();
  EXPECT_NE(std::string::npos, std::string(floe_last_error()).find(words)) << floe_last_error();
}

// On every rank, followed by a collective that works.
template <class F>
void refuse(F&& calls) {
  run_ranks(2, [&](Rank& r) {
    std::array<float, 64> data{};
    calls(r, data.data());
    Exercise(r, {.count = 100}, 1).run();
  });
}

}  // namespace floe::test
