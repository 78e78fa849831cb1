// floe::create_gloo_device in a program whose Gloo floe does not know.
#include <floe/gloo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Factory, SaysWhatIsWrongWithTheGlooOfTheProgram) {
  EXPECT_THAT([] { floe::create_gloo_device(); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("gloo::transport::tcp::Device has 6 virtual functions, not 7")));
}

}  // namespace
