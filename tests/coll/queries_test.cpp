// What a program can ask floe about itself and the machine.
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exercise.h"

namespace floe::test {
namespace {

TEST(Queries, OfAContext) {
  run_ranks(2,
            [](Rank& r) {
              floe_context_info_t info = FLOE_CONTEXT_INFO_INIT;
              ASSERT_FLOE_OK(floe_context_info(r.context, &info));
              EXPECT_EQ(1u, info.workers);
              EXPECT_EQ(1u, info.communicators);
              EXPECT_GE(info.settings, 9u);
              EXPECT_EQ(0u, info.allocations);
              info.struct_size = 4;
              EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_context_info(r.context, &info));
              EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_context_info(r.context, nullptr));
            },
            {.workers = 1});
}

TEST(Queries, OfTheMachine) {
  floe_topology_t t = FLOE_TOPOLOGY_INIT;
  ASSERT_FLOE_OK(floe_topology(&t));
  EXPECT_GE(t.cpus, 1u);
  EXPECT_GE(t.host_cpus, t.cpus);
  EXPECT_GE(t.cpus, t.cores);
  EXPECT_GE(t.cpus, t.l3_cpus);
  EXPECT_EQ(t.l3_caches == 0, t.l3_cpus == 0);
  EXPECT_GT(t.memory_bytes, uint64_t{1} << 20);
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_topology(nullptr));
}

TEST(Queries, OfSettingsSayWhereTheyComeFrom) {
  const char* const before = getenv("FLOE_TIMEOUT_MS");
  const std::string kept = before ? before : "";
  setenv("FLOE_TIMEOUT_MS", "4321", 1);
  floe_context_t* context = nullptr;
  floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
  config.workers = 1;
  ASSERT_FLOE_OK(floe_context_create(&config, &context));
  unsetenv("FLOE_TIMEOUT_MS");
  if (before) setenv("FLOE_TIMEOUT_MS", kept.c_str(), 1);

  std::map<std::string, floe_setting_t> settings;
  floe_setting_t setting = FLOE_SETTING_INIT;
  uint32_t index = 0;
  while (floe_setting(context, index, &setting) == FLOE_OK) settings[setting.name] = setting, ++index;
  floe_context_info_t info = FLOE_CONTEXT_INFO_INIT;
  ASSERT_FLOE_OK(floe_context_info(context, &info));
  EXPECT_EQ(info.settings, index);
  EXPECT_EQ(index, settings.size());
  EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_setting(context, index, &setting));

  EXPECT_STREQ("4321", settings.at("FLOE_TIMEOUT_MS").value) << "as the context found it";
  EXPECT_EQ(uint32_t{FLOE_SETTING_ENVIRONMENT}, settings.at("FLOE_TIMEOUT_MS").source);
  EXPECT_STREQ("1", settings.at("FLOE_WORKERS").value);
  EXPECT_EQ(uint32_t{FLOE_SETTING_CALLER}, settings.at("FLOE_WORKERS").source);
  if (!getenv("FLOE_ISA")) {
    EXPECT_EQ(uint32_t{FLOE_SETTING_DEFAULT}, settings.at("FLOE_ISA").source);
  }
  for (const auto& [name, s] : settings) EXPECT_GT(std::strlen(s.help), 0u) << name;
  EXPECT_FLOE_OK(floe_context_destroy(context));
}

TEST(Queries, OfACommunicatorsStatistics) {
  std::barrier together(2);
  run_ranks(2, [&](Rank& r) {
    floe_comm_statistics_t before = FLOE_COMM_STATISTICS_INIT, after = FLOE_COMM_STATISTICS_INIT;
    ASSERT_FLOE_OK(floe_comm_statistics(r.comm, &before));
    std::vector<double> data(100);
    for (int i = 0; i < 3; ++i)
      ASSERT_FLOE_OK(
          floe_all_reduce(r.comm, FLOE_IN_PLACE, data.data(), data.size(), FLOE_FLOAT64, FLOE_SUM, nullptr));
    if (r.rank == 0) {
      ASSERT_FLOE_OK(floe_send(r.comm, data.data(), 10, FLOE_FLOAT64, 1, 0, nullptr));
    } else {
      ASSERT_FLOE_OK(floe_recv(r.comm, data.data(), 10, FLOE_FLOAT64, 0, 0, nullptr));
    }
    ASSERT_FLOE_OK(floe_comm_statistics(r.comm, &after));
    EXPECT_EQ(3u, after.collectives - before.collectives);
    EXPECT_EQ(3u * 800, after.collective_bytes - before.collective_bytes);
    EXPECT_EQ(r.rank == 0 ? 1u : 0u, after.sends);
    EXPECT_EQ(r.rank == 0 ? 80u : 0u, after.sent_bytes);
    EXPECT_EQ(r.rank == 1 ? 1u : 0u, after.receives);
    EXPECT_EQ(static_cast<uint32_t>(FLOE_OK), after.status);
    EXPECT_EQ(4u, after.completed - before.completed);
    EXPECT_EQ(0u, after.failed);

    Request receives[2];
    for (Request& receive : receives)
      EXPECT_FLOE_OK(floe_recv(r.comm, data.data(), 1, FLOE_FLOAT64, 1 - r.rank, 7, receive.out()));
    before = after;
    EXPECT_FLOE_OK(floe_comm_statistics(r.comm, &after));
    EXPECT_EQ(2u, after.receives - before.receives);
    EXPECT_EQ(before.completed, after.completed) << "they are under way";
    EXPECT_EQ(0u, after.failed);

    together.arrive_and_wait();  // an abort ends what the other has under way
    ASSERT_FLOE_OK(floe_comm_abort(r.comm));
    EXPECT_EQ(FLOE_ERR_ABORTED, floe_barrier(r.comm, nullptr));
    ASSERT_FLOE_OK(floe_comm_statistics(r.comm, &after));
    EXPECT_EQ(static_cast<uint32_t>(FLOE_ERR_ABORTED), after.status);
    EXPECT_EQ(1u, after.refused);
    EXPECT_EQ(2u, after.failed);
    EXPECT_EQ(after.collectives + after.sends + after.receives, after.completed + after.failed);
  });
}

struct Lines {
  std::mutex mutex;
  std::vector<std::string> texts;
  static void keep(void* self, uint32_t level, const char* text) {
    auto& lines = *static_cast<Lines*>(self);
    const std::lock_guard lock(lines.mutex);
    lines.texts.push_back(std::to_string(level) + text);
  }
};

// A rank that waits for a quarter of its deadline warns, when it wakes next: after half as long again.
TEST(LogCallback, GetsTheLinesUntilItIsTakenBack) {
  Lines lines;
  ASSERT_FLOE_OK(floe_set_log_callback(Lines::keep, &lines));
  const auto wait_long = [] {
    run_ranks(2,
              [](Rank& r) {
                if (r.rank == 1) usleep(2'500'000);
                EXPECT_FLOE_OK(floe_barrier(r.comm, nullptr));
              },
              {.timeout_ms = 4000});
  };
  wait_long();
  ASSERT_FLOE_OK(floe_set_log_callback(nullptr, nullptr));
  size_t found = 0;
  for (const auto& text : lines.texts)
    found += text.starts_with("1") && text.find("barrier") != text.npos && text.find("rank 1") != text.npos;
  EXPECT_EQ(1u, found);
  const size_t kept = lines.texts.size();
  wait_long();
  EXPECT_EQ(kept, lines.texts.size());
}

}  // namespace
}  // namespace floe::test
