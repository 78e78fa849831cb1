#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(CheckReduction, KnowsEveryPairOfTypeAndOperation) {
  for (int type = FLOE_FLOAT32; type <= FLOE_UINT64; ++type) {
    for (int op = FLOE_SUM; op <= FLOE_MAX; ++op) {
      const bool integer_average = op == FLOE_AVG && type >= FLOE_INT8;
      EXPECT_EQ(check_reduction(type, op).code(), integer_average ? FLOE_ERR_UNSUPPORTED : FLOE_OK);
    }
  }
  EXPECT_THAT(check_reduction(FLOE_INT64, FLOE_AVG).message(), HasSubstr("avg of int64"));
}

TEST(CheckReduction, UnknownValuesAreArgumentErrorsThatNameThem) {
  for (const int unknown : {-1, 12, 1000}) {
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
