// What the ranks that live must see when one does not.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exercise.h"
#include "processes.h"

namespace floe::test {

// Calls until one fails, and reports it: stage counts the calls that succeeded.
inline void call_until_it_fails(uint32_t rank, const std::function<floe_status_t()>& call) {
  Report& report = Processes::report(rank);
  floe_status_t status = FLOE_OK;
  while ((status = call()) == FLOE_OK) report.stage.fetch_add(1);
  report.note(status);
}

inline std::function<floe_status_t()> all_reduce_of(const Rank& r, std::vector<float>& data) {
  return [&r, &data] {
    return floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(), FLOE_FLOAT32, FLOE_MAX, nullptr);
  };
}

// The rank's report has this status and all of these words.
inline void expect_report(uint32_t rank, floe_status_t status, const std::vector<std::string>& words) {
  const Report& report = Processes::report(rank);
  const std::string text = report.text.data();
  EXPECT_EQ(status, report.status.load())
      << "rank " << rank << ": " << floe_status_string(static_cast<floe_status_t>(report.status.load()))
      << ": " << text;
  for (const auto& word : words) EXPECT_NE(text.npos, text.find(word)) << "no '" << word << "' in: " << text;
}

// `attempt` returns how long something took. A machine that is busy with other things may delay ranks once,
// not three times.
inline void expect_within(double seconds, const std::function<double()>& attempt) {
  double took = 0;
  for (int i = 0; i < 3; ++i)
    if ((took = attempt()) <= seconds || testing::Test::HasFailure()) return;
  ADD_FAILURE() << "took " << took << " s, at most " << seconds << " are promised";
}

// Shrinks, expects `size` ranks in the old order, and uses them.
inline void go_on(Member& me, uint32_t rank, uint32_t size) {
  floe_comm_t* fewer = nullptr;
  ASSERT_FLOE_OK(floe_comm_shrink(me.comm(), &fewer));
  const Rank r = described(me.rank(), fewer);
  EXPECT_EQ(size, r.size);
  EXPECT_EQ(rank, r.rank);
  use(r);
  ASSERT_FLOE_OK(floe_barrier(fewer, nullptr));
  EXPECT_FLOE_OK(floe_comm_destroy(fewer));
}

// What floe_comm_shrink gave `me` while another rank died: that may have been after it, which is found out
// here, and then one more shrink. Expects `size` ranks in the end.
inline void go_on_without_one_more(Member& me, floe_comm_t* comm, uint32_t rank, uint32_t size) {
  floe_status_t status = FLOE_OK;
  while (described(me.rank(), comm).size > size && (status = floe_barrier(comm, nullptr)) == FLOE_OK) {
  }
  if (status != FLOE_OK) {
    EXPECT_EQ(FLOE_ERR_PEER, status) << floe_last_error();
    floe_comm_t* next = nullptr;
    ASSERT_FLOE_OK(floe_comm_shrink(comm, &next));
    EXPECT_FLOE_OK(floe_comm_destroy(comm));
    comm = next;
  }
  const Rank r = described(me.rank(), comm);
  EXPECT_EQ(size, r.size);
  EXPECT_EQ(rank, r.rank);
  use(r);
  EXPECT_FLOE_OK(floe_comm_destroy(comm));
}

}  // namespace floe::test
