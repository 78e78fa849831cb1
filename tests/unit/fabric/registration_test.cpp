#include "fabric/registration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rdma/fi_endpoint.h>

#include <array>
#include <memory>
#include <string>

namespace floe::fabric {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A domain that writes down what is asked of it: no provider here asks for every bit.
class Domain {
 public:
  Domain() {
    domain_.fid.context = this;
    domain_.mr = &register_;
    register_.size = sizeof register_;
    register_.reg = [](fid* domain, const void* base, size_t bytes, uint64_t access, uint64_t offset,
                       uint64_t key, uint64_t flags, fid_mr** region, void*) {
      auto& self = *static_cast<Domain*>(domain->context);
      if (self.refuses) return -FI_ENOMEM;
      EXPECT_EQ(uint64_t{FI_SEND | FI_RECV}, access);
      EXPECT_EQ(0u, offset);
      EXPECT_EQ(0u, flags);
      self.said.push_back(fmt::format("reg {}+{} key {}", reinterpret_cast<uintptr_t>(base), bytes, key));
      self.regions_.push_back(std::make_unique<fid_mr>());
      *region = self.regions_.back().get();
      (*region)->fid.context = &self;
      (*region)->fid.ops = &self.region_;
      (*region)->mem_desc = *region;
      return 0;
    };
    region_.size = sizeof region_;
    region_.bind = [](fid* region, fid* endpoint, uint64_t) {
      return say(region, endpoint == &of(region).endpoint_.fid ? "bind" : "bind to another");
    };
    region_.control = [](fid* region, int command, void*) {
      return say(region, command == FI_ENABLE ? "enable" : "control");
    };
    region_.close = [](fid* region) { return say(region, "close"); };
  }

  Registrations registrations(int mode, bool always = false) { return {&domain_, &endpoint_, mode, always}; }
  // Registers two regions and closes them.
  std::vector<std::string> two(int mode) {
    Registrations some = registrations(mode);
    std::array<void*, 2> descriptors{};
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(0, some.add(reinterpret_cast<void*>(4096 * (i + 1)), 100, &descriptors[i]));
      EXPECT_EQ(regions_.back().get(), descriptors[i]);
    }
    some.close();
    some.close();
    return said;
  }

  bool refuses = false;
  std::vector<std::string> said;

 private:
  static Domain& of(fid* region) { return *static_cast<Domain*>(region->context); }
  static int say(fid* region, const char* what) {
    of(region).said.emplace_back(what);
    return 0;
  }

  fid_domain domain_{};
  fid_ep endpoint_{};
  fi_ops_mr register_{};
  fi_ops region_{};
  std::vector<std::unique_ptr<fid_mr>> regions_;
};

TEST(Registrations, AreNeededWhereTheProviderOrTheUserSays) {
  Domain domain;
  EXPECT_FALSE(domain.registrations(0).needed());
  EXPECT_FALSE(
      domain.registrations(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT).needed())
      << "these are of remote access";
  EXPECT_TRUE(domain.registrations(FI_MR_LOCAL).needed());
  EXPECT_TRUE(domain.registrations(FI_MR_BASIC).needed());
  EXPECT_TRUE(domain.registrations(0, true).needed());
}

TEST(Registrations, PagesMustBeThereWhereTheProviderSays) {
  Domain domain;
  EXPECT_FALSE(domain.registrations(FI_MR_ALLOCATED).needs_pages());
  EXPECT_FALSE(domain.registrations(FI_MR_LOCAL).needs_pages());
  EXPECT_TRUE(domain.registrations(FI_MR_LOCAL | FI_MR_ALLOCATED).needs_pages());
  EXPECT_TRUE(domain.registrations(FI_MR_BASIC).needs_pages());
}

TEST(Registrations, KeysAreOurOwnUnlessTheyAreTheProviders) {
  EXPECT_THAT(Domain().two(FI_MR_LOCAL),
              ElementsAre("reg 4096+100 key 1", "reg 8192+100 key 2", "close", "close"));
  for (const int mode : {FI_MR_LOCAL | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR, int{FI_MR_BASIC}})
    EXPECT_THAT(Domain().two(mode),
                ElementsAre("reg 4096+100 key 0", "reg 8192+100 key 0", "close", "close"));
}

TEST(Registrations, AreBoundToTheEndpointAndEnabledWhereTheyAreOfOne) {
  EXPECT_THAT(Domain().two(FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_PROV_KEY),
              ElementsAre("reg 4096+100 key 0", "bind", "enable", "reg 8192+100 key 0", "bind", "enable",
                          "close", "close"));
}

TEST(Registrations, ARefusalIsAnErrorAndNothingToClose) {
  Domain domain;
  domain.refuses = true;
  Registrations some = domain.registrations(FI_MR_LOCAL);
  void* descriptor = nullptr;
  EXPECT_EQ(-FI_ENOMEM, some.add(nullptr, 1, &descriptor));
  some.close();
  EXPECT_THAT(domain.said, IsEmpty());
}

}  // namespace
}  // namespace floe::fabric
