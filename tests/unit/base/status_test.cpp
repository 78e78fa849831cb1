#include "base/status.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <memory>

namespace floe {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Status, IsOkUnlessToldOtherwise) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().code(), FLOE_OK);
  const Status status = error(FLOE_ERR_PEER, "rank {} died", 3);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), FLOE_ERR_PEER);
  EXPECT_EQ(status.message(), "rank 3 died");
}

TEST(Status, InKeepsTheCodeAndPutsTheContextInFront) {
  const Status status = error(FLOE_ERR_STORE, "gone").in("creating 'world'");
  EXPECT_EQ(status.code(), FLOE_ERR_STORE);
  EXPECT_EQ(status.message(), "creating 'world': gone");
}

TEST(Status, SystemErrorHasErrnoInWordsAndInFigures) {
  const Status status = system_error("opening", EMFILE);
  EXPECT_EQ(status.code(), FLOE_ERR_SYSTEM);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("opening: Too many open files"), HasSubstr("errno 24")));
}

Status fails_at(int limit, int& reached) {
  for (;; ++reached) FLOE_TRY(reached < limit ? Status() : error(FLOE_ERR_TIMEOUT, "at {}", reached));
}

TEST(Status, TryReturnsTheFirstError) {
  int reached = 0;
  EXPECT_EQ(fails_at(3, reached).message(), "at 3");
  EXPECT_EQ(reached, 3);
}

Result<std::unique_ptr<int>> boxed(int value) {
  FLOE_TRY(value >= 0 ? Status() : error(FLOE_ERR_ARGUMENT, "negative"));
  return std::make_unique<int>(value);
}

TEST(Result, HoldsAValueThatCanOnlyMoveOrAnError) {
  auto good = boxed(5);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good.status().ok());
  const std::unique_ptr<int> taken = std::move(*good);
  EXPECT_EQ(*taken, 5);

  const auto bad = boxed(-1);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), FLOE_ERR_ARGUMENT);
}

}  // namespace
}  // namespace floe
