#include "layout.h"

#include <array>
#include <cstddef>

namespace floe::gloo_transport {
namespace {

constexpr std::array kNames = {"R0", "R1", "R2", "R3", "R4"};
static_assert(kNames.size() == kRevisions);

// Where a revision has no such function, or it is not to be checked:
constexpr int kNone = -1;
using ByRevision = std::array<int, kRevisions>;

// The place of a virtual function in the table, and the symbol that implements it.
struct Slot {
  ByRevision index;
  const char* symbol;
};

struct Class {
  const char* name;
  const char* vtable;
  ByRevision slots;               // of the implementing class, secondary tables included
  std::span<const Slot> checked;  // the others are not exported: inline, or defaults of the interface
};

constexpr ByRevision always(int index) { return {index, index, index, index, index}; }
// R1 is only to be recognised, and its binaries may have the strings of the C++ library before GCC 5.
constexpr ByRevision with_string(int index) { return {index, kNone, index, index, index}; }

#define FLOE_GLOO_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define FLOE_GLOO_MILLIS "NSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"
#define FLOE_GLOO_TCP "_ZN4gloo9transport3tcp"
#define FLOE_GLOO_TCP_CONST "_ZNK4gloo9transport3tcp"
#define FLOE_GLOO_PREFIX_STORE "_ZN4gloo10rendezvous11PrefixStore"

constexpr Slot kDevice[] = {
    {always(0), FLOE_GLOO_TCP "6DeviceD1Ev"},
    {always(1), FLOE_GLOO_TCP "6DeviceD0Ev"},
    {with_string(2), FLOE_GLOO_TCP_CONST "6Device3strB5cxx11Ev"},
    {with_string(3), FLOE_GLOO_TCP_CONST "6Device11getPCIBusIDB5cxx11Ev"},
    {always(4), FLOE_GLOO_TCP_CONST "6Device17getInterfaceSpeedEv"},
    {always(6), FLOE_GLOO_TCP "6Device13createContextEii"},
};
constexpr Slot kContext[] = {
    {always(0), FLOE_GLOO_TCP "7ContextD1Ev"},
    {always(1), FLOE_GLOO_TCP "7ContextD0Ev"},
    {{2, 2, 2, kNone, kNone}, "_ZN4gloo9transport7Context7getPairEi"},
    {{kNone, kNone, kNone, 2, 2}, FLOE_GLOO_TCP "7Context7getPairEi"},
    {always(3), FLOE_GLOO_TCP "7Context10createPairEi"},
    {{kNone, kNone, 4, kNone, kNone}, FLOE_GLOO_TCP "7Context24createAndConnectAllPairsERNS_6IStoreE"},
    {{kNone, kNone, kNone, 4, 4},
     FLOE_GLOO_TCP "7Context24createAndConnectAllPairsESt10shared_ptrINS_6IStoreEE"},
    {{4, 4, 5, 5, 5}, FLOE_GLOO_TCP "7Context19createUnboundBufferEPvm"},
};
constexpr Slot kPair[] = {
    {always(0), FLOE_GLOO_TCP "4PairD1Ev"},
    {always(1), FLOE_GLOO_TCP "4PairD0Ev"},
    {always(2), FLOE_GLOO_TCP_CONST "4Pair7addressEv"},
    {always(3), FLOE_GLOO_TCP "4Pair7connectERKSt6vectorIcSaIcEE"},
    {always(4), FLOE_GLOO_TCP "4Pair5closeEv"},
    {always(5), FLOE_GLOO_TCP "4Pair7setSyncEbb"},
    {always(6), FLOE_GLOO_TCP "4Pair16createSendBufferEiPvm"},
    {always(7), FLOE_GLOO_TCP "4Pair16createRecvBufferEiPvm"},
    {{kNone, kNone, kNone, 8, 8}, FLOE_GLOO_TCP "4Pair11isConnectedEv"},
    {{8, 8, 8, 9, 9}, FLOE_GLOO_TCP "4Pair4sendEPNS0_13UnboundBufferEmmm"},
    {{9, 9, 9, 10, 10}, FLOE_GLOO_TCP "4Pair4recvEPNS0_13UnboundBufferEmmm"},
    // tcp's first own function: the interface ends before it.
    {{10, 10, 10, kNone, kNone}, FLOE_GLOO_TCP "4Pair12handleEventsEi"},
    {{kNone, kNone, kNone, 11, 13}, FLOE_GLOO_TCP "4Pair12handleEventsERNS1_4LoopEi"},
};
constexpr Slot kUnboundBuffer[] = {
    {always(0), FLOE_GLOO_TCP "13UnboundBufferD1Ev"},
    {always(1), FLOE_GLOO_TCP "13UnboundBufferD0Ev"},
    {always(2), FLOE_GLOO_TCP "13UnboundBuffer8waitRecvEPi" FLOE_GLOO_MILLIS},
    {always(3), FLOE_GLOO_TCP "13UnboundBuffer8waitSendEPi" FLOE_GLOO_MILLIS},
    {always(4), FLOE_GLOO_TCP "13UnboundBuffer13abortWaitRecvEv"},
    {always(5), FLOE_GLOO_TCP "13UnboundBuffer13abortWaitSendEv"},
    {always(6), FLOE_GLOO_TCP "13UnboundBuffer4sendEimmm"},
    {always(7), FLOE_GLOO_TCP "13UnboundBuffer4recvEimmm"},
    {always(8), FLOE_GLOO_TCP "13UnboundBuffer4recvESt6vectorIiSaIiEEmmm"},
};
constexpr Slot kBuffer[] = {
    {always(0), FLOE_GLOO_TCP "6BufferD1Ev"},        {always(1), FLOE_GLOO_TCP "6BufferD0Ev"},
    {always(3), FLOE_GLOO_TCP "6Buffer4sendEmmm"},   {always(4), FLOE_GLOO_TCP "6Buffer8waitRecvEv"},
    {always(5), FLOE_GLOO_TCP "6Buffer8waitSendEv"},
};
constexpr Slot kAddress[] = {
    {with_string(2), FLOE_GLOO_TCP_CONST "7Address3strB5cxx11Ev"},
    {always(3), FLOE_GLOO_TCP_CONST "7Address5bytesEv"},
};
constexpr Slot kStore[] = {
    {with_string(2), FLOE_GLOO_PREFIX_STORE "3setERK" FLOE_GLOO_STRING "RKSt6vectorIcS6_E"},
    {with_string(3), FLOE_GLOO_PREFIX_STORE "3getERK" FLOE_GLOO_STRING},
    {{5, kNone, 4, 5, 5},
     FLOE_GLOO_PREFIX_STORE "4waitERKSt6vectorI" FLOE_GLOO_STRING "SaIS8_EERK" FLOE_GLOO_MILLIS},
    {{kNone, 6, 6, 6, 6}, FLOE_GLOO_PREFIX_STORE "14has_v2_supportEv"},
    {{kNone, kNone, 9, 9, 9}, FLOE_GLOO_PREFIX_STORE "6appendERK" FLOE_GLOO_STRING "RKSt6vectorIcS6_E"},
    {{kNone, kNone, 10, 10, 10}, FLOE_GLOO_PREFIX_STORE "3addERK" FLOE_GLOO_STRING "l"},
};

#undef FLOE_GLOO_STRING
#undef FLOE_GLOO_MILLIS
#undef FLOE_GLOO_TCP
#undef FLOE_GLOO_TCP_CONST
#undef FLOE_GLOO_PREFIX_STORE

constexpr std::array kClasses = {
    Class{"gloo::transport::tcp::Device", "_ZTVN4gloo9transport3tcp6DeviceE", always(7), kDevice},
    Class{"gloo::transport::tcp::Context", "_ZTVN4gloo9transport3tcp7ContextE", {5, 5, 6, 6, 7}, kContext},
    Class{"gloo::transport::tcp::Pair", "_ZTVN4gloo9transport3tcp4PairE", {22, 22, 22, 23, 25}, kPair},
    Class{"gloo::transport::tcp::UnboundBuffer",
          "_ZTVN4gloo9transport3tcp13UnboundBufferE",
          {9, 9, 9, 9, 12},
          kUnboundBuffer},
    Class{"gloo::transport::tcp::Buffer", "_ZTVN4gloo9transport3tcp6BufferE", always(6), kBuffer},
    Class{"gloo::transport::tcp::Address", "_ZTVN4gloo9transport3tcp7AddressE", always(4), kAddress},
    Class{
        "gloo::rendezvous::PrefixStore", "_ZTVN4gloo10rendezvous11PrefixStoreE", {6, 11, 11, 12, 12}, kStore},
};

std::string why_not(const Symbols& host, const Class& expected, size_t revision) {
  const std::string name = expected.name;
  const auto vtable = host.vtable(expected.vtable);
  if (!vtable) return name + " has no exported vtable";
  const auto slots = static_cast<size_t>(expected.slots[revision]);
  if (vtable->size() != slots) {
    return name + " has " + std::to_string(vtable->size()) + " virtual functions, not " +
           std::to_string(slots);
  }
  for (const Slot& slot : expected.checked) {
    if (slot.index[revision] == kNone) continue;
    const auto index = static_cast<size_t>(slot.index[revision]);
    const void* function = host.function(slot.symbol);
    if (!function) return name + " has no exported " + slot.symbol;
    if ((*vtable)[index] != function) {
      return name + "'s virtual function " + std::to_string(index) + " is not " + slot.symbol;
    }
  }
  return "";
}

}  // namespace

Layout identify(const Symbols& host) {
  Layout closest;
  size_t most = 0;
  for (size_t revision = kRevisions; revision-- > 0;) {
    size_t same = 0;
    std::string first;
    for (const Class& expected : kClasses) {
      std::string why = why_not(host, expected, revision);
      if (why.empty())
        ++same;
      else if (first.empty())
        first = std::move(why);
    }
    if (first.empty()) return {static_cast<int>(revision), ""};
    if (revision == kRevisions - 1 || same > most) {
      closest.difference = std::string(kNames.at(revision)) + " is the closest, but " + first;
      most = same;
    }
  }
  return closest;
}

const char* seen_in(int revision) {
  constexpr std::array kSeenIn = {"Debian 12's libgloo, PyTorch 1.13 to 2.0", "PyTorch 2.1",
                                  "PyTorch 2.4 to 2.7, Debian 13's libgloo", "PyTorch 2.8",
                                  "PyTorch 2.9 to 2.15"};
  return kSeenIn.at(static_cast<size_t>(revision));
}

std::string refusal_of(const Layout& layout, const std::string& path) {
  if (layout.supported()) return "";
  const std::string start = "floe: the Gloo inside " + path + " is of ";
  const std::string end =
      ". Use a Gloo of revision R0, R2, R3 or R4 (PyTorch 2.9 to 2.15 have R4), or in PyTorch backend='floe'";
  if (layout.revision < 0) return start + "no revision that floe knows: " + layout.difference + end;
  const char* const name = kNames.at(static_cast<size_t>(layout.revision));
  return start + "revision " + name + " (" + seen_in(layout.revision) + "), which floe does not support" +
         end;
}

}  // namespace floe::gloo_transport
