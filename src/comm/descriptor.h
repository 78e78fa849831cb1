// What a collective was called with, for peers to compare.
#pragma once

#include "base/packet.h"
#include "engine/operation.h"

namespace floe {

inline Descriptor collective(Kind kind, uint64_t count, int type = 0, int op = 0, uint32_t root = 0) {
  constexpr uint8_t kCollectiveLane = 1;
  return {static_cast<uint8_t>(kind),
          static_cast<uint8_t>(op),
          static_cast<uint8_t>(type),
          kCollectiveLane,
          root,
          count};
}

}  // namespace floe
