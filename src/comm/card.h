// What a rank tells the others first: who and where it is.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "base/status.h"

namespace floe {

struct Card {
  uint32_t version = 0;
  uint32_t size = 0;
  uint64_t key = 0;
  uint64_t nonce = 0;    // of this rank's segment
  std::string host;      // identity: equal means that memory can be shared
  std::string hostname;  // for people
  int pid = 0;
  std::string socket, token;
  std::string shm, provider;  // settings that all ranks must share
  std::string cpus;           // that this rank may use, as a CPU list
  std::string costs;          // the cost model, which all ranks must share
  uint64_t engine = 0;        // identifies this rank's context
  std::string secret;         // "set" or "not set"
  std::string controls;       // ids of the control connections that it has: see ControlWireUp
  std::string wire;           // FLOE_WIRE_DTYPE, which all ranks must share

  std::string who(uint32_t rank) const {
    return fmt::format("rank {} (host {}, pid {})", rank, hostname, pid);
  }

  std::string encode() const;
  // A store is the outside: anything may be in it.
  static Result<Card> decode(const std::string& text, uint32_t rank);
};

}  // namespace floe
