#include <algorithm>

#include "coll/algorithms.h"

namespace floe {

Range part(Buffer buffer, Elements all, uint32_t parts, uint32_t index) {
  // Parts start at multiples of a cache line where there is enough to split.
  const uint64_t line = std::max<uint64_t>(1, 64 / all.element);
  const uint64_t size = ((all.count + parts - 1) / parts + line - 1) / line * line;
  const uint64_t begin = std::min(all.count, size * index);
  const uint64_t count = std::min(size, all.count - begin);
  return {buffer, begin * all.element, count * all.element};
}

Schedule exchange_all_reduce(uint32_t ranks, uint32_t rank, Elements data) {
  Schedule s;
  const uint64_t bytes = data.bytes();
  std::vector<Range> sources(ranks);
  std::vector<StepId> all;
  for (uint32_t step = 1; step < ranks; ++step) {
    const uint32_t to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    sources[from] = {Buffer::kScratch, s.scratch(bytes), bytes};
    all.push_back(s.receive(from, 0, sources[from]));
    all.push_back(s.send(to, 0, {Buffer::kSend, 0, bytes}));
  }
  sources[rank] = {Buffer::kSend, 0, bytes};
  s.reduce({Buffer::kRecv, 0, bytes}, sources, all);
  return s;
}

bool takes_one_crossing(uint32_t ranks, Elements data) {
  // The exchange saves one crossing and pays (n - 2) times the bytes: worth it while they cost less than a
  // crossing, some tens of KiB on any link.
  constexpr uint64_t kExchangeBytes = 16 << 10;
  return data.bytes() * (ranks - 1) <= kExchangeBytes;
}

Schedule all_reduce(uint32_t ranks, uint32_t rank, Elements data, bool in_any_order) {
  if (takes_one_crossing(ranks, data)) return exchange_all_reduce(ranks, rank, data);
  // The direct algorithm needs two messages' time where the ring needs that of 2(n-1), but all ranks' parts
  // for one meet at its link: connections take turns there by losing packets, or by guessing a rate of their
  // own, and 4 hosts at 1 Gbit/s get 84 % of it against the ring's 93 (256 KiB, 1 MiB). So the ring as soon
  // as a part takes longer than a message, which is some tens of microseconds on any link.
  constexpr uint64_t kRingPart = 64 << 10;
  const bool long_parts = part(Buffer::kSend, data, ranks, 0).bytes >= kRingPart;
  return in_any_order && ranks > 2 && long_parts ? ring_all_reduce(ranks, rank, data)
                                                 : direct_all_reduce(ranks, rank, data);
}

}  // namespace floe
