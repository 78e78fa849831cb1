// libfloe_gloo.so in a process whose PyTorch has a Gloo that it does not know.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kFound = "gloo::transport::tcp::Device has 6 virtual functions, not 7";

TEST(Refusal, SaysWhatWasFoundAndThrowsItOnlyWhenFloeIsAskedFor) {
  void* const torch = dlopen(FLOE_TEST_TORCH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(torch, nullptr) << dlerror();
  ::testing::internal::CaptureStderr();
  void* const plugin = dlopen(FLOE_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(kFound));
  ASSERT_NE(plugin, nullptr) << dlerror();

  // The shim then uses Gloo's own transport.
  const auto usable = reinterpret_cast<int (*)()>(dlsym(plugin, "floe_gloo_usable"));
  ASSERT_NE(usable, nullptr);
  EXPECT_EQ(usable(), 0);

  const auto ask = reinterpret_cast<void (*)()>(dlsym(torch, "make_floe_device"));
  ASSERT_NE(ask, nullptr);
  EXPECT_THAT(ask, ThrowsMessage<std::runtime_error>(HasSubstr(kFound)));
}

}  // namespace
