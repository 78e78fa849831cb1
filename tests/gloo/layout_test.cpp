// The layout check accepts what PyTorch's binaries hold, and nothing else.
#include "layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace floe::gloo_transport {
namespace {

using ::testing::HasSubstr;

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define MILLIS "NSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"

// As read from the vtables in PyTorch 2.13's libtorch_cpu.so; "" is a function that it does not export.
const std::map<std::string, std::vector<std::string>> kPyTorch213 = {
    {"_ZTVN4gloo9transport3tcp6DeviceE",
     {"_ZN4gloo9transport3tcp6DeviceD1Ev", "_ZN4gloo9transport3tcp6DeviceD0Ev",
      "_ZNK4gloo9transport3tcp6Device3strB5cxx11Ev", "_ZNK4gloo9transport3tcp6Device11getPCIBusIDB5cxx11Ev",
      "_ZNK4gloo9transport3tcp6Device17getInterfaceSpeedEv", "",
      "_ZN4gloo9transport3tcp6Device13createContextEii"}},
    {"_ZTVN4gloo9transport3tcp7ContextE",
     {"_ZN4gloo9transport3tcp7ContextD1Ev", "_ZN4gloo9transport3tcp7ContextD0Ev",
      "_ZN4gloo9transport3tcp7Context7getPairEi", "_ZN4gloo9transport3tcp7Context10createPairEi",
      "_ZN4gloo9transport3tcp7Context24createAndConnectAllPairsESt10shared_ptrINS_6IStoreEE",
      "_ZN4gloo9transport3tcp7Context19createUnboundBufferEPvm", ""}},
    {"_ZTVN4gloo9transport3tcp4PairE",
     {"_ZN4gloo9transport3tcp4PairD1Ev",
      "_ZN4gloo9transport3tcp4PairD0Ev",
      "_ZNK4gloo9transport3tcp4Pair7addressEv",
      "_ZN4gloo9transport3tcp4Pair7connectERKSt6vectorIcSaIcEE",
      "_ZN4gloo9transport3tcp4Pair5closeEv",
      "_ZN4gloo9transport3tcp4Pair7setSyncEbb",
      "_ZN4gloo9transport3tcp4Pair16createSendBufferEiPvm",
      "_ZN4gloo9transport3tcp4Pair16createRecvBufferEiPvm",
      "_ZN4gloo9transport3tcp4Pair11isConnectedEv",
      "_ZN4gloo9transport3tcp4Pair4sendEPNS0_13UnboundBufferEmmm",
      "_ZN4gloo9transport3tcp4Pair4recvEPNS0_13UnboundBufferEmmm",
      "",
      "",
      "_ZN4gloo9transport3tcp4Pair12handleEventsERNS1_4LoopEi",
      "_ZN4gloo9transport3tcp4Pair5writeERNS1_2OpE",
      "_ZN4gloo9transport3tcp4Pair4readEv",
      "_ZN4gloo9transport3tcp4Pair15handleReadWriteEi",
      "_ZN4gloo9transport3tcp4Pair11changeStateENS2_5stateE",
      "_ZN4gloo9transport3tcp4Pair18waitUntilConnectedERSt11unique_lockISt5mutexEb",
      "_ZN4gloo9transport3tcp4Pair15verifyConnectedERSt11unique_lockISt5mutexE",
      "",
      "_ZTIN4gloo9transport3tcp4PairE",
      "_ZThn16_N4gloo9transport3tcp4PairD1Ev",
      "_ZThn16_N4gloo9transport3tcp4PairD0Ev",
      "_ZThn16_N4gloo9transport3tcp4Pair12handleEventsERNS1_4LoopEi"}},
    {"_ZTVN4gloo9transport3tcp13UnboundBufferE",
     {"_ZN4gloo9transport3tcp13UnboundBufferD1Ev", "_ZN4gloo9transport3tcp13UnboundBufferD0Ev",
      ("_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPi" MILLIS),
      ("_ZN4gloo9transport3tcp13UnboundBuffer8waitSendEPi" MILLIS),
      "_ZN4gloo9transport3tcp13UnboundBuffer13abortWaitRecvEv",
      "_ZN4gloo9transport3tcp13UnboundBuffer13abortWaitSendEv",
      "_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm", "_ZN4gloo9transport3tcp13UnboundBuffer4recvEimmm",
      "_ZN4gloo9transport3tcp13UnboundBuffer4recvESt6vectorIiSaIiEEmmm", "", "", ""}},
    {"_ZTVN4gloo9transport3tcp6BufferE",
     {"_ZN4gloo9transport3tcp6BufferD1Ev", "_ZN4gloo9transport3tcp6BufferD0Ev", "",
      "_ZN4gloo9transport3tcp6Buffer4sendEmmm", "_ZN4gloo9transport3tcp6Buffer8waitRecvEv",
      "_ZN4gloo9transport3tcp6Buffer8waitSendEv"}},
    {"_ZTVN4gloo9transport3tcp7AddressE",
     {"", "", "_ZNK4gloo9transport3tcp7Address3strB5cxx11Ev", "_ZNK4gloo9transport3tcp7Address5bytesEv"}},
    {"_ZTVN4gloo10rendezvous11PrefixStoreE",
     {"", "", ("_ZN4gloo10rendezvous11PrefixStore3setERK" STRING "RKSt6vectorIcS6_E"),
      ("_ZN4gloo10rendezvous11PrefixStore3getERK" STRING), "",
      ("_ZN4gloo10rendezvous11PrefixStore4waitERKSt6vectorI" STRING "SaIS8_EERK" MILLIS),
      "_ZN4gloo10rendezvous11PrefixStore14has_v2_supportEv",
      ("_ZN4gloo10rendezvous11PrefixStore9multi_getERKSt6vectorI" STRING "SaIS8_EE"),
      ("_ZN4gloo10rendezvous11PrefixStore9multi_setERKSt6vectorI" STRING "SaIS8_EERKS2_IS2_IcS7_ESaISD_EE"),
      ("_ZN4gloo10rendezvous11PrefixStore6appendERK" STRING "RKSt6vectorIcS6_E"),
      ("_ZN4gloo10rendezvous11PrefixStore3addERK" STRING "l"), ""}},
};

const std::string kContext = "_ZTVN4gloo9transport3tcp7ContextE";
const std::string kBuffer = "_ZTVN4gloo9transport3tcp13UnboundBufferE";
const std::string kPair = "_ZTVN4gloo9transport3tcp4PairE";

#undef STRING
#undef MILLIS

// A library whose functions stand at the addresses of their names.
class FakeHost final : public Symbols {
 public:
  std::map<std::string, std::vector<std::string>> vtables = kPyTorch213;
  std::set<std::string> unexported;

  std::optional<std::span<void* const>> vtable(const char* symbol) const override {
    const auto found = vtables.find(symbol);
    if (found == vtables.end()) return std::nullopt;
    auto& slots = built_[symbol];
    slots.clear();
    for (const std::string& name : found->second) slots.push_back(address(name));
    return slots;
  }
  void* function(const char* symbol) const override {
    return unexported.contains(symbol) ? nullptr : address(symbol);
  }

 private:
  void* address(const std::string& name) const {
    return const_cast<char*>(names_.insert(name).first->c_str());  // a set's elements do not move
  }
  mutable std::set<std::string> names_;
  mutable std::map<std::string, std::vector<void*>> built_;
};

// "", or how it differs from R4, of which it is.
std::string why_not(const FakeHost& host) {
  const Layout layout = identify(host);
  const std::string start = "R4 is the closest, but ";
  EXPECT_EQ(layout.supported(), layout.difference.empty());
  if (layout.supported()) return "";
  EXPECT_EQ(layout.difference.substr(0, start.size()), start);
  return layout.difference.substr(std::min(start.size(), layout.difference.size()));
}

TEST(Layout, AcceptsPyTorch213) {
  EXPECT_EQ(why_not(FakeHost()), "");
  EXPECT_EQ(identify(FakeHost()).revision, 4);
}

// PyTorch 2.1's, whose strings are those of the C++ library before GCC 5.
TEST(Layout, RefusesR1ByName) {
  FakeHost host;
  host.vtables["_ZTVN4gloo9transport3tcp6DeviceE"][2] = "_ZNK4gloo9transport3tcp6Device3strEv";
  host.vtables["_ZTVN4gloo9transport3tcp6DeviceE"][3] = "_ZNK4gloo9transport3tcp6Device11getPCIBusIDEv";
  auto& context = host.vtables[kContext];
  context[2] = "_ZN4gloo9transport7Context7getPairEi";
  context.erase(context.begin() + 4);  // createAndConnectAllPairs
  context.resize(5);
  auto& pair = host.vtables[kPair];
  pair.erase(pair.begin() + 11, pair.begin() + 13);  // put, get
  pair.erase(pair.begin() + 8);                      // isConnected
  pair[10] = "_ZN4gloo9transport3tcp4Pair12handleEventsEi";
  host.vtables[kBuffer].resize(9);
  host.vtables["_ZTVN4gloo10rendezvous11PrefixStoreE"].resize(11);
  const Layout layout = identify(host);
  EXPECT_EQ(layout.revision, 1);
  EXPECT_FALSE(layout.supported());
  EXPECT_THAT(refusal_of(layout, "lib.so"),
              HasSubstr("lib.so is of revision R1 (PyTorch 2.1), which floe does not"));
}

TEST(Layout, RefusesAMissingVtable) {
  FakeHost host;
  host.vtables.erase(kPair);
  EXPECT_EQ(why_not(host), "gloo::transport::tcp::Pair has no exported vtable");
}

TEST(Layout, RefusesOlderRevisionsByTheirNumberOfFunctions) {
  FakeHost host;
  host.vtables[kContext].resize(5);
  EXPECT_EQ(why_not(host), "gloo::transport::tcp::Context has 5 virtual functions, not 7");
}

TEST(Layout, RefusesAFunctionAddedToAnInterface) {
  for (const auto& [vtable, slots] : kPyTorch213) {
    FakeHost host;
    host.vtables[vtable].insert(host.vtables[vtable].begin() + 2, "_ZN4gloo3newEv");
    EXPECT_THAT(why_not(host), HasSubstr("virtual functions, not")) << vtable;
  }
}

TEST(Layout, RefusesFunctionsInAnotherOrder) {
  for (const auto& [vtable, slots] : kPyTorch213) {
    FakeHost host;
    std::swap(host.vtables[vtable][2], host.vtables[vtable][3]);
    EXPECT_THAT(why_not(host), HasSubstr("'s virtual function ")) << vtable;
  }
}

// Of the same size: one function of the interface has gone, and one of tcp's own has come.
TEST(Layout, RefusesAnInterfaceThatEndsElsewhere) {
  FakeHost host;
  auto& pair = host.vtables[kPair];
  pair.erase(pair.begin() + 12);
  pair.insert(pair.begin() + 13, "_ZN4gloo9transport3tcp4Pair3newEv");
  EXPECT_THAT(why_not(host), HasSubstr("virtual function 13 is not"));
}

TEST(Layout, RefusesASignatureThatChanged) {
  FakeHost host;
  host.unexported.insert("_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm");
  EXPECT_EQ(why_not(host),
            "gloo::transport::tcp::UnboundBuffer has no exported "
            "_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm");
}

}  // namespace
}  // namespace floe::gloo_transport
