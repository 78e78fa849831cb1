#include <gmock/gmock.h>
#include <sched.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "topo/topology.h"

namespace floe {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<unsigned> cpus_of_this_thread() {
  cpu_set_t set;
  std::vector<unsigned> cpus;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void on_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

TEST(AllowedCpus, AreThoseOfTheProcess) { EXPECT_EQ(allowed_cpus(), cpus_of_this_thread()); }

// As under taskset, numactl or mpirun's binding.
TEST(AllowedCpus, FollowTheAffinityOfTheProcess) {
  const unsigned one = allowed_cpus().back();
  EXPECT_EXIT(
      {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(one, &set);
        const bool bound = ::sched_setaffinity(::getpid(), sizeof set, &set) == 0;
        std::exit(bound && allowed_cpus() == std::vector<unsigned>{one} ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(PinThisThread, BindsTheCallingThreadOnly) {
  const std::vector<unsigned> before = cpus_of_this_thread();
  on_a_thread([&] {
    const unsigned one = before.back();
    const Status pinned = pin_this_thread(std::span(&one, 1));
    ASSERT_TRUE(pinned.ok()) << pinned.message();
    EXPECT_THAT(cpus_of_this_thread(), ElementsAre(one));
  });
  EXPECT_EQ(cpus_of_this_thread(), before);
}

// The allowed set is the process's: being pinned to one CPU does not make the others forbidden.
TEST(PinThisThread, CanBeUndone) {
  on_a_thread([] {
    const std::vector<unsigned> all = allowed_cpus();
    ASSERT_TRUE(pin_this_thread(std::span(all).first(1)).ok());
    const Status back = pin_this_thread(all);
    EXPECT_TRUE(back.ok()) << back.message();
    EXPECT_EQ(cpus_of_this_thread(), all);
  });
}

TEST(PinThisThread, AnEmptyListChangesNothing) {
  on_a_thread([] {
    const auto before = cpus_of_this_thread();
    EXPECT_TRUE(pin_this_thread({}).ok());
    EXPECT_EQ(cpus_of_this_thread(), before);
  });
}

TEST(PinThisThread, RefusesACpuOutsideTheAllowedSetAndListsIt) {
  on_a_thread([] {
    const auto before = cpus_of_this_thread();
    for (const unsigned forbidden : {before.back() + 1, 65535u}) {
      const std::vector<unsigned> wish = {before.front(), forbidden};
      const Status refused = pin_this_thread(wish);
      EXPECT_EQ(refused.code(), FLOE_ERR_ENVIRONMENT);
      EXPECT_THAT(refused.message(), AllOf(HasSubstr("CPU " + std::to_string(forbidden)),
                                           HasSubstr("allowed are " + std::to_string(before.front()))));
      EXPECT_EQ(cpus_of_this_thread(), before);
    }
  });
}

}  // namespace
}  // namespace floe
