// Memory of floe_mem_alloc, to which peers write while an all_reduce is under way: once it has ended, however
// it did, the memory is the caller's again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "survivors.h"

namespace floe::test {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kCount = 4 << 20;  // 16 MiB: some milliseconds of nothing but peers' writes

class Allocated {
 public:
  explicit Allocated(floe_context_t* context) : context_(context) {
    void* memory = nullptr;
    EXPECT_FLOE_OK(floe_mem_alloc(context, kCount * sizeof(float), &memory));
    data_ = static_cast<float*>(memory);
  }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
  ~Allocated() { EXPECT_FLOE_OK(floe_mem_free(context_, data_)); }

  floe_status_t start(floe_comm_t* comm, floe_request_t** request, float value = 1) {
    std::fill_n(data_, kCount, value);
    return floe_all_reduce(comm, FLOE_IN_PLACE, data_, kCount, FLOE_FLOAT32, FLOE_SUM, request);
  }
  // Sums of new data until that fails, and the error. No write of a peer's leaves what was there.
  floe_status_t use(const Rank& r) {
    for (float turn = 1;; ++turn) {
      const auto status = start(r.comm, nullptr, turn);
      if (status != FLOE_OK) return status;
      EXPECT_EQ(static_cast<ptrdiff_t>(kCount),
                std::count(data_, data_ + kCount, turn * static_cast<float>(r.size)));
      Processes::report(r.rank).stage.fetch_add(1);
    }
  }
  // The same, and nothing else in between: what is there doubles with every call.
  floe_status_t use_without_pause(const Rank& r) {
    auto status = start(r.comm, nullptr);
    for (; status == FLOE_OK; Processes::report(r.rank).stage.fetch_add(1))
      status = floe_all_reduce(r.comm, FLOE_IN_PLACE, data_, kCount, FLOE_FLOAT32, FLOE_SUM, nullptr);
    return status;
  }
  std::vector<float> contents() const { return {data_, data_ + kCount}; }
  bool holds(const std::vector<float>& before) const {
    return std::equal(before.begin(), before.end(), data_);
  }

 private:
  floe_context_t* context_;
  float* data_ = nullptr;
};

// What is in it stays, and what comes after it is zero and stays so.
void expect_nobody_writes(floe_context_t* context, std::unique_ptr<Allocated> data) {
  const auto before = data->contents();
  std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(data->holds(before)) << "a peer wrote after the operation's end";
  data = nullptr;
  const Allocated next(context);
  std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(next.holds(std::vector<float>(kCount))) << "a peer wrote to what was freed";
}

TEST(Allocated, IsTheCallersAfterAPeersDeath) {
  constexpr uint32_t kVictim = 1;
  for (const auto delay : {0us, 700us, 1900us}) {
    Processes processes(3, [](uint32_t rank) {
      Member me;
      ASSERT_FLOE_OK(me.status());
      auto data = std::make_unique<Allocated>(me.rank().context);
      Processes::report(rank).note(data->use(me.rank()));
      expect_nobody_writes(me.rank().context, std::move(data));
      if (rank == kVictim) return;
      go_on(me, rank / 2, 2);
    });
    ASSERT_TRUE(processes.wait_for_stage(3));
    std::this_thread::sleep_for(delay);
    processes.signal(kVictim, SIGKILL);
    processes.expect_success(60s, kVictim);
    for (const uint32_t rank : {0, 2}) expect_report(rank, FLOE_ERR_PEER, {"rank 1", "died", "all_reduce"});
  }
}

TEST(Allocated, IsTheCallersAfterAnAbortOnAnyRank) {
  Processes(3, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    Rank r = me.rank();
    for (uint32_t turn = 0; turn < 9; ++turn) {
      auto data = std::make_unique<Allocated>(r.context);
      std::thread aborter;
      if (turn % 3 == rank)
        aborter = std::thread([&, calls = Processes::report(rank).stage + 2] {
          while (Processes::report(rank).stage < calls) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::microseconds(700) * turn);
          EXPECT_FLOE_OK(floe_comm_abort(r.comm));
        });
      EXPECT_EQ(FLOE_ERR_ABORTED, data->use(r)) << floe_last_error();
      expect_nobody_writes(r.context, std::move(data));
      if (aborter.joinable()) aborter.join();
      floe_comm_t* next = nullptr;
      ASSERT_FLOE_OK(floe_comm_shrink(r.comm, &next));
      if (r.comm != me.comm()) {
        EXPECT_FLOE_OK(floe_comm_destroy(r.comm));
      }
      r = described(r, next);
      ASSERT_EQ(3u, r.size);
    }
    EXPECT_FLOE_OK(floe_comm_destroy(r.comm));
  }).expect_success(90s);
}

TEST(Allocated, IsTheCallersAfterADestroyWithWorkInFlight) {
  Processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    for (int turn = 0; turn < 8; ++turn) {
      floe_comm_t* comm = nullptr;
      ASSERT_FLOE_OK(floe_comm_split(me.comm(), 0, 0, &comm));
      auto data = std::make_unique<Allocated>(me.rank().context);
      if (rank == 0) {
        EXPECT_EQ(FLOE_ERR_PEER, data->use(described(me.rank(), comm))) << floe_last_error();
      } else {
        Request request;
        ASSERT_FLOE_OK(data->start(comm, request.out()));
        for (const double end = steady_seconds() + 3e-4 * turn; steady_seconds() < end;)
          (void)floe_test(request.get());
        EXPECT_FLOE_OK(floe_comm_destroy(comm));
      }
      expect_nobody_writes(me.rank().context, std::move(data));
      if (rank == 0) {
        EXPECT_FLOE_OK(floe_comm_destroy(comm));
      }
    }
  }).expect_success(90s);
}

// A child that comes while peers write has none of it, and takes nothing from its parent.
TEST(Allocated, IsAbsentFromChildrenThatComeMeanwhile) {
  Processes(2, [](uint32_t) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    Allocated data(me.rank().context);
    for (int turn = 1; turn <= 10; ++turn) {
      Request request;
      ASSERT_FLOE_OK(data.start(me.comm(), request.out(), static_cast<float>(turn)));
      const pid_t child = fork();
      if (child == 0) {
        signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would print
        data.contents();
        _exit(0);
      }
      ASSERT_FLOE_OK(request.wait());
      int status = 0;
      ASSERT_EQ(child, waitpid(child, &status, 0));
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
      EXPECT_TRUE(data.holds(std::vector<float>(kCount, 2 * static_cast<float>(turn))));
    }
  }).expect_success(60s);
}

constexpr uint32_t kCutOff = 2, kStopped = 3, kLooked = 4;  // reports of no process, for the test's own words

void note_if_cut_off(void*, uint32_t, const char* line) {
  if (std::strstr(line, "is cut off")) Processes::report(kCutOff).stage = 1;
}

// Rank 0, whose peer is stopped in the middle of a call.
void abort_and_look(Member& me) {
  floe_set_log_callback(note_if_cut_off, nullptr);
  auto data = std::make_unique<Allocated>(me.rank().context);
  std::thread user([&] { Processes::report(0).note(data->use_without_pause(me.rank())); });
  while (Processes::report(kStopped).stage == 0) std::this_thread::sleep_for(100us);
  const double begin = steady_seconds();
  EXPECT_FLOE_OK(floe_comm_abort(me.comm()));
  EXPECT_LT(steady_seconds() - begin, 2.0);
  user.join();
  const auto before = data->contents();
  Processes::report(kLooked).stage = 1;
  while (Processes::report(1).status < 0) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(data->holds(before)) << "the peer went on to write";
  expect_nobody_writes(me.rank().context, std::move(data));
}

void stop_and_go_on(std::chrono::microseconds delay) {
  Processes processes(2, [](uint32_t rank) {
    Member me;
    ASSERT_FLOE_OK(me.status());
    if (rank == 0) return abort_and_look(me);
    auto data = std::make_unique<Allocated>(me.rank().context);
    Processes::report(rank).note(data->use_without_pause(me.rank()));
    expect_nobody_writes(me.rank().context, std::move(data));
  });
  ASSERT_TRUE(processes.wait_for_stage(2));
  std::this_thread::sleep_for(delay);
  processes.signal(1, SIGSTOP);
  siginfo_t info;
  ASSERT_EQ(0, waitid(P_PID, static_cast<id_t>(processes.pid(1)), &info, WSTOPPED | WNOWAIT));
  Processes::report(kStopped).stage = 1;
  const double give_up = steady_seconds() + 20;
  while (Processes::report(kLooked).stage == 0 && steady_seconds() < give_up)
    std::this_thread::sleep_for(1ms);
  processes.signal(1, SIGCONT);
  processes.expect_success(60s);
  expect_report(0, FLOE_ERR_ABORTED, {"all_reduce"});
  expect_report(1, FLOE_ERR_ABORTED, {"rank 0"});
}

TEST(Allocated, IsTheCallersAlsoOnceAStoppedPeerGoesOn) {
  const char* const shm = std::getenv("FLOE_SHM");
  const bool direct = !shm || std::strcmp(shm, "off") != 0;
  for (int turn = 0; turn < 12; ++turn) {
    stop_and_go_on(turn * 337us);
    if (HasFailure() || !direct || Processes::report(kCutOff).stage == 1) return;
  }
  ADD_FAILURE() << "the peer was never stopped in a write: the test has shown nothing";
}

}  // namespace
}  // namespace floe::test
