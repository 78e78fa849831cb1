#include "exit_gate.h"

#include <unistd.h>

#include <atomic>

#include "levels.h"

namespace floe_torch {
namespace {

thread_local bool exits = false;
// Release: pairs with the acquire in ~ExitGate(). Whoever is woken by the shutdown that follows close() sees
// it anyway, through the locks of floe; a thread that passes just before has Python's lock before it is gone.
std::atomic<bool> closed{false};
std::atomic<bool> closed_to_callbacks{false};  // as `closed`

}  // namespace

ExitGate::~ExitGate() {
  if (!closed.load(std::memory_order_acquire) || exits) return;
  if (this_chain() && !closed_to_callbacks.load(std::memory_order_acquire)) return;
  while (true) ::pause();
}

void ExitGate::close() {
  exits = true;
  closed.store(true, std::memory_order_release);
}

void ExitGate::close_to_callbacks() { closed_to_callbacks.store(true, std::memory_order_release); }

}  // namespace floe_torch
