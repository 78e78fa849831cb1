#include <algorithm>
#include <numeric>

#include "coll/algorithms.h"
#include "coll/direct_reduce_scatter.h"

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

Schedule direct_all_reduce(uint32_t ranks, uint32_t rank, Elements data) {
  Schedule s;
  const auto scatter = direct_reduce_scatter(s, ranks, rank, data, part(Buffer::kRecv, data, ranks, rank));
  for (uint32_t step = 1; step < ranks; ++step) {
    const uint32_t to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    s.send(to, 1, part(Buffer::kRecv, data, ranks, rank), {scatter.reduced});
    // In place, the part that arrives overwrites what was sent to its owner.
    s.receive(from, 1, part(Buffer::kRecv, data, ranks, from), {scatter.sent[from]});
  }
  return s;
}

bool takes_one_crossing(uint32_t ranks, Elements data) {
  // The exchange saves one crossing and pays (n - 2) times the bytes: worth it while they cost less than a
  // crossing, some tens of KiB on any link.
  constexpr uint64_t kExchangeBytes = 16 << 10;
  return data.bytes() * (ranks - 1) <= kExchangeBytes;
}

Schedule all_reduce(uint32_t ranks, uint32_t rank, Elements data) {
  return takes_one_crossing(ranks, data) ? exchange_all_reduce(ranks, rank, data)
                                         : direct_all_reduce(ranks, rank, data);
}

}  // namespace floe
