#include "fabric/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace floe::fabric {
namespace {

using testing::HasSubstr;

EndpointAddress sample() {
  return {"1.17", "tcp;ofi_rxm", 3, {std::string("\x00\x01\xff fi\n", 7), "\x7f"}, 0x0123456789abcdef};
}

TEST(EndpointAddress, TextIsPrintableAndReadsBack) {
  const std::string text = sample().to_text();
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c <= '~');
  const auto read = EndpointAddress::parse(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->libfabric, "1.17");
  EXPECT_EQ(read->provider, "tcp;ofi_rxm");
  EXPECT_EQ(read->format, 3u);
  EXPECT_EQ(read->names, sample().names);
  EXPECT_EQ(read->id, sample().id);
}

TEST(EndpointAddress, LongestNameFitsOneKilobyte) {
  EndpointAddress longest = sample();
  longest.names = {std::string(EndpointAddress::kMaxName, '\xff')};
  EXPECT_LE(longest.to_text().size(), EndpointAddress::kMaxText);
  EXPECT_TRUE(EndpointAddress::parse(longest.to_text()).ok());
}

TEST(EndpointAddress, EveryTruncationIsAnError) {
  const std::string text = sample().to_text();
  // The last name may lose whole bytes, and the list its last name.
  const size_t last_field = text.rfind(' ') + 1;
  for (size_t size = 0; size < text.size(); ++size) {
    const size_t start = size > text.rfind(',') ? text.rfind(',') + 1 : last_field;
    const bool still_hex = size > start && (size - start) % 2 == 0;
    EXPECT_EQ(EndpointAddress::parse(text.substr(0, size)).ok(), still_hex) << text.substr(0, size);
  }
}

TEST(EndpointAddress, MalformedFieldsAreErrors) {
  for (const char* const text :
       {"", " ", "floe-fabric-1 1.17 net 3 12 0", "floe-fabric-1 1.17 net 3 12 zz",
        "floe-fabric-1 1.17 net 3 12 00,", "floe-fabric-1 1.17 net 3 12 ,00",
        "floe-fabric-1 1.17 net 3 12 00,00,00,00,00,00,00,00,00", "floe-fabric-1 1.17 net x 12 00",
        "floe-fabric-1 1.17 net -1 12 00", "floe-fabric-1 1.17 net 3 11112222333344445 00",
        "floe-fabric-1 1.17 net 3 12 00 00", "floe-fabric-1 1.17  3 12 00",
        "floe-fabric-1 1.17 n\x01t 3 12 00"})
    EXPECT_EQ(EndpointAddress::parse(text).status().code(), FLOE_ERR_TRANSPORT) << text;
  EXPECT_FALSE(EndpointAddress::parse("floe-fabric-1 1.17 net 3 12 " + std::string(514, '0')).ok());
  EXPECT_FALSE(EndpointAddress::parse(std::string(1 << 20, 'x')).ok());
}

TEST(EndpointAddress, AnotherFormatIsAMismatch) {
  const auto read = EndpointAddress::parse("floe-fabric-2 1.17 net 3 12 00");
  EXPECT_EQ(read.status().code(), FLOE_ERR_MISMATCH);
  EXPECT_THAT(read.status().message(), HasSubstr("floe-fabric-2"));
}

}  // namespace
}  // namespace floe::fabric
