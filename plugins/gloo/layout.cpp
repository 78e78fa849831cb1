#include "layout.h"

#include <array>
#include <cstddef>

namespace floe::gloo_transport {
namespace {

// A virtual function that the interface puts into this slot, and the symbol that implements it.
struct Slot {
  size_t index;
  const char* symbol;
};

struct Class {
  const char* name;
  const char* vtable;
  size_t slots;                   // of the implementing class, secondary tables included
  std::span<const Slot> checked;  // the others are not exported: inline, or defaults of the interface
};

#define FLOE_GLOO_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define FLOE_GLOO_MILLIS "NSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"

constexpr Slot kDevice[] = {
    {0, "_ZN4gloo9transport3tcp6DeviceD1Ev"},
    {1, "_ZN4gloo9transport3tcp6DeviceD0Ev"},
    {2, "_ZNK4gloo9transport3tcp6Device3strB5cxx11Ev"},
    {3, "_ZNK4gloo9transport3tcp6Device11getPCIBusIDB5cxx11Ev"},
    {4, "_ZNK4gloo9transport3tcp6Device17getInterfaceSpeedEv"},
    {6, "_ZN4gloo9transport3tcp6Device13createContextEii"},
};
constexpr Slot kContext[] = {
    {0, "_ZN4gloo9transport3tcp7ContextD1Ev"},
    {1, "_ZN4gloo9transport3tcp7ContextD0Ev"},
    {2, "_ZN4gloo9transport3tcp7Context7getPairEi"},
    {3, "_ZN4gloo9transport3tcp7Context10createPairEi"},
    {4, "_ZN4gloo9transport3tcp7Context24createAndConnectAllPairsESt10shared_ptrINS_6IStoreEE"},
    {5, "_ZN4gloo9transport3tcp7Context19createUnboundBufferEPvm"},
};
constexpr Slot kPair[] = {
    {0, "_ZN4gloo9transport3tcp4PairD1Ev"},
    {1, "_ZN4gloo9transport3tcp4PairD0Ev"},
    {2, "_ZNK4gloo9transport3tcp4Pair7addressEv"},
    {3, "_ZN4gloo9transport3tcp4Pair7connectERKSt6vectorIcSaIcEE"},
    {4, "_ZN4gloo9transport3tcp4Pair5closeEv"},
    {5, "_ZN4gloo9transport3tcp4Pair7setSyncEbb"},
    {6, "_ZN4gloo9transport3tcp4Pair16createSendBufferEiPvm"},
    {7, "_ZN4gloo9transport3tcp4Pair16createRecvBufferEiPvm"},
    {8, "_ZN4gloo9transport3tcp4Pair11isConnectedEv"},
    {9, "_ZN4gloo9transport3tcp4Pair4sendEPNS0_13UnboundBufferEmmm"},
    {10, "_ZN4gloo9transport3tcp4Pair4recvEPNS0_13UnboundBufferEmmm"},
    // tcp's first own function: the interface ends before it.
    {13, "_ZN4gloo9transport3tcp4Pair12handleEventsERNS1_4LoopEi"},
};
constexpr Slot kUnboundBuffer[] = {
    {0, "_ZN4gloo9transport3tcp13UnboundBufferD1Ev"},
    {1, "_ZN4gloo9transport3tcp13UnboundBufferD0Ev"},
    {2, "_ZN4gloo9transport3tcp13UnboundBuffer8waitRecvEPi" FLOE_GLOO_MILLIS},
    {3, "_ZN4gloo9transport3tcp13UnboundBuffer8waitSendEPi" FLOE_GLOO_MILLIS},
    {4, "_ZN4gloo9transport3tcp13UnboundBuffer13abortWaitRecvEv"},
    {5, "_ZN4gloo9transport3tcp13UnboundBuffer13abortWaitSendEv"},
    {6, "_ZN4gloo9transport3tcp13UnboundBuffer4sendEimmm"},
    {7, "_ZN4gloo9transport3tcp13UnboundBuffer4recvEimmm"},
    {8, "_ZN4gloo9transport3tcp13UnboundBuffer4recvESt6vectorIiSaIiEEmmm"},
};
constexpr Slot kBuffer[] = {
    {0, "_ZN4gloo9transport3tcp6BufferD1Ev"},        {1, "_ZN4gloo9transport3tcp6BufferD0Ev"},
    {3, "_ZN4gloo9transport3tcp6Buffer4sendEmmm"},   {4, "_ZN4gloo9transport3tcp6Buffer8waitRecvEv"},
    {5, "_ZN4gloo9transport3tcp6Buffer8waitSendEv"},
};
constexpr Slot kAddress[] = {
    {2, "_ZNK4gloo9transport3tcp7Address3strB5cxx11Ev"},
    {3, "_ZNK4gloo9transport3tcp7Address5bytesEv"},
};
constexpr Slot kStore[] = {
    {2, "_ZN4gloo10rendezvous11PrefixStore3setERK" FLOE_GLOO_STRING "RKSt6vectorIcS6_E"},
    {3, "_ZN4gloo10rendezvous11PrefixStore3getERK" FLOE_GLOO_STRING},
    {5, "_ZN4gloo10rendezvous11PrefixStore4waitERKSt6vectorI" FLOE_GLOO_STRING "SaIS8_EERK" FLOE_GLOO_MILLIS},
    {6, "_ZN4gloo10rendezvous11PrefixStore14has_v2_supportEv"},
    {9, "_ZN4gloo10rendezvous11PrefixStore6appendERK" FLOE_GLOO_STRING "RKSt6vectorIcS6_E"},
    {10, "_ZN4gloo10rendezvous11PrefixStore3addERK" FLOE_GLOO_STRING "l"},
};

#undef FLOE_GLOO_STRING
#undef FLOE_GLOO_MILLIS

constexpr std::array kClasses = {
    Class{"gloo::transport::tcp::Device", "_ZTVN4gloo9transport3tcp6DeviceE", 7, kDevice},
    Class{"gloo::transport::tcp::Context", "_ZTVN4gloo9transport3tcp7ContextE", 7, kContext},
    Class{"gloo::transport::tcp::Pair", "_ZTVN4gloo9transport3tcp4PairE", 25, kPair},
    Class{"gloo::transport::tcp::UnboundBuffer", "_ZTVN4gloo9transport3tcp13UnboundBufferE", 12,
          kUnboundBuffer},
    Class{"gloo::transport::tcp::Buffer", "_ZTVN4gloo9transport3tcp6BufferE", 6, kBuffer},
    Class{"gloo::transport::tcp::Address", "_ZTVN4gloo9transport3tcp7AddressE", 4, kAddress},
    Class{"gloo::rendezvous::PrefixStore", "_ZTVN4gloo10rendezvous11PrefixStoreE", 12, kStore},
};

std::string why_not(const Symbols& host, const Class& expected) {
  const std::string name = expected.name;
  const auto vtable = host.vtable(expected.vtable);
  if (!vtable) return name + " has no exported vtable";
  if (vtable->size() != expected.slots) {
    return name + " has " + std::to_string(vtable->size()) + " virtual functions, not " +
           std::to_string(expected.slots);
  }
  for (const Slot& slot : expected.checked) {
    const void* function = host.function(slot.symbol);
    if (!function) return name + " has no exported " + slot.symbol;
    if ((*vtable)[slot.index] != function) {
      return name + "'s virtual function " + std::to_string(slot.index) + " is not " + slot.symbol;
    }
  }
  return "";
}

}  // namespace

std::string why_not_r4(const Symbols& host) {
  for (const Class& expected : kClasses) {
    if (std::string why = why_not(host, expected); !why.empty()) return why;
  }
  return "";
}

}  // namespace floe::gloo_transport
