#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "base/types.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

using ::testing::HasSubstr;

class Isa : public ::testing::Test {
 protected:
  ~Isa() override { EXPECT_TRUE(set_isa("").ok()); }
};

TEST_F(Isa, TheBestIsUsedUnlessCapped) {
  ASSERT_FALSE(isa_names().empty());
  EXPECT_EQ(isa_name(), isa_names().front());
  ASSERT_TRUE(set_isa(isa_names().back()).ok());
  EXPECT_EQ(isa_name(), isa_names().back());
  ASSERT_TRUE(set_isa("").ok());
  EXPECT_EQ(isa_name(), isa_names().front());
}

TEST_F(Isa, EveryListedNameIsAcceptedAndNamed) {
  for (const std::string& name : isa_names()) {
    ASSERT_TRUE(set_isa(name).ok()) << name;
    EXPECT_EQ(isa_name(), name);
  }
}

TEST_F(Isa, AnUnknownNameIsAnErrorThatListsTheOnesThereAreAndChangesNothing) {
  ASSERT_TRUE(set_isa(isa_names().back()).ok());
  for (const char* wrong : {"avx1024", "AVX2", "avx2 "}) {
    const Status status = set_isa(wrong);
    EXPECT_EQ(status.code(), FLOE_ERR_ENVIRONMENT);
    EXPECT_THAT(status.message(), HasSubstr(wrong));
    for (const std::string& name : isa_names()) EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_EQ(isa_name(), isa_names().back());
  }
}

// As contexts do that are created later with another FLOE_ISA.
TEST_F(Isa, MayChangeWhileOthersReduce) {
  constexpr size_t kCount = 1000;
  std::vector<float> a(kCount), b(kCount), expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = 0.1f * static_cast<float>(i);
    b[i] = 1.0f / static_cast<float>(i + 1);
    expected[i] = a[i] + b[i];
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread)
    threads.emplace_back([&] {
      std::vector<float> sum(kCount);
      void* const to[] = {sum.data()};
      const void* const from[] = {a.data(), b.data()};
      while (!stop) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        reduce(to, from, kCount, FLOE_FLOAT32, FLOE_SUM, 1);
        ASSERT_EQ(expected, sum);
      }
    });
  for (int round = 0; round < 200; ++round)
    for (const std::string& name : isa_names()) {
      ASSERT_TRUE(set_isa(name).ok());
      std::this_thread::yield();
    }
  stop = true;
  for (auto& thread : threads) thread.join();
}

TEST(CheckReduction, KnowsEveryPairOfTypeAndOperation) {
  // Columns: sum, avg, product, min, max, band, bor, bxor, premul-sum.
  const std::string_view real = "111110001", whole = "101111110", complex = "111000000";
  const std::map<int, std::string_view> rows = {
      {FLOE_FLOAT32, real},       {FLOE_FLOAT64, real},     {FLOE_FLOAT16, real}, {FLOE_BFLOAT16, real},
      {FLOE_FLOAT8_E4M3, real},   {FLOE_FLOAT8_E5M2, real}, {FLOE_INT8, whole},   {FLOE_INT16, whole},
      {FLOE_INT32, whole},        {FLOE_INT64, whole},      {FLOE_UINT8, whole},  {FLOE_UINT16, whole},
      {FLOE_UINT32, whole},       {FLOE_UINT64, whole},     {FLOE_BOOL, whole},   {FLOE_COMPLEX64, complex},
      {FLOE_COMPLEX128, complex},
  };
  ASSERT_EQ(rows.size(), size_t{kTypes});
  for (const auto& [type, row] : rows) {
    ASSERT_EQ(row.size(), size_t{kOps});
    for (int op = 0; op < kOps; ++op) {
      const Status status = check_reduction(type, op);
      EXPECT_EQ(status.code(), row[static_cast<size_t>(op)] == '1' ? FLOE_OK : FLOE_ERR_UNSUPPORTED);
      if (status.ok()) continue;
      EXPECT_THAT(status.message(), HasSubstr(fmt::format("{} of {} is", op_name(op), type_name(type))));
    }
  }
  EXPECT_THAT(check_reduction(FLOE_INT64, FLOE_AVG).message(), HasSubstr("avg of int64"));
}

TEST(CheckReduction, UnknownValuesAreArgumentErrorsThatNameThem) {
  for (const int unknown : {-1, kTypes, 1000}) {
    const Status type = check_reduction(unknown, FLOE_SUM);
    EXPECT_EQ(type.code(), FLOE_ERR_ARGUMENT);
    EXPECT_THAT(type.message(), HasSubstr(std::to_string(unknown) + " is not a floe_type_t"));
    const Status op = check_reduction(FLOE_FLOAT32, unknown);
    EXPECT_EQ(op.code(), FLOE_ERR_ARGUMENT);
    EXPECT_THAT(op.message(), HasSubstr(std::to_string(unknown) + " is not a floe_op_t"));
  }
}

}  // namespace
}  // namespace floe
