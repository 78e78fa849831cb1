#include <algorithm>
#include <array>

#include "coll/algorithms.h"

namespace floe {
namespace {

// Exchanges under way at a time: enough to hide the latency of small blocks, few enough that large ones do
// not all meet at one receiver.
constexpr uint32_t kUnderWay = 8;

// Scratch for the blocks that leave, so that those that arrive may take their place.
std::array<uint64_t, kUnderWay> leaving_room(Schedule& s, uint32_t rank, const Blocks& blocks) {
  std::array<uint64_t, kUnderWay> slots{};
  uint64_t largest = 0;
  for (uint32_t peer = 0; peer < blocks.size(); ++peer)
    if (peer != rank) largest = std::max(largest, blocks[peer].bytes);
  const auto used = std::min<size_t>(kUnderWay, blocks.size() - 1);
  for (size_t i = 0; i < used; ++i) slots[i] = s.scratch(largest);
  return slots;
}

}  // namespace

// In round k ranks r and k - r (mod n) exchange, so both do their part in the same round. That is why none
// waits for ever: once everybody has ended the rounds before, both partners of a round have started it.
Schedule all_to_all(uint32_t rank, const Blocks& from, const Blocks& to, bool in_place) {
  Schedule s;
  const auto ranks = static_cast<uint32_t>(to.size());
  const auto slots = in_place ? leaving_room(s, rank, to) : std::array<uint64_t, kUnderWay>{};
  std::vector<std::vector<StepId>> exchanges;
  for (uint32_t round = 0; round < ranks; ++round) {
    const uint32_t peer = (round + ranks - rank) % ranks;
    if (peer == rank) continue;
    const size_t index = exchanges.size();
    auto before = index < kUnderWay ? std::vector<StepId>() : exchanges[index - kUnderWay];
    const Range arriving = to[peer].in(Buffer::kRecv);
    if (in_place) {
      const Range leaving = {Buffer::kScratch, slots[index % kUnderWay], arriving.bytes};
      const StepId saved = s.copy(leaving, arriving, std::move(before));
      exchanges.push_back({s.receive(peer, 0, arriving, {saved}), s.send(peer, 0, leaving, {saved})});
    } else {
      const StepId received = s.receive(peer, 0, arriving);
      exchanges.push_back({received, s.send(peer, 0, from[peer].in(Buffer::kSend), std::move(before))});
    }
  }
  if (!in_place) s.copy(to[rank].in(Buffer::kRecv), from[rank].in(Buffer::kSend));
  return s;
}

}  // namespace floe
