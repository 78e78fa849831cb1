#include "coll/direct_reduce_scatter.h"

namespace floe {

namespace {

DirectReduceScatter scatter_parts(Schedule& s, uint32_t ranks, uint32_t rank, const std::vector<Range>& parts,
                                  Range to) {
  DirectReduceScatter result{0, std::vector<StepId>(ranks)};
  std::vector<Range> sources(ranks);
  std::vector<StepId> received;
  const uint64_t bytes = parts[rank].bytes;
  for (uint32_t step = 1; step < ranks; ++step) {
    const uint32_t dest = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    sources[from] = {Buffer::kScratch, s.scratch(bytes), bytes};
    received.push_back(s.receive(from, 0, sources[from]));
    result.sent[dest] = s.send(dest, 0, parts[dest]);
  }
  sources[rank] = parts[rank];
  result.reduced = s.reduce(to, sources, received);
  s.only_reader(result.reduced, received);
  result.sent[rank] = result.reduced;
  return result;
}

}  // namespace

DirectReduceScatter direct_reduce_scatter(Schedule& s, uint32_t ranks, uint32_t rank, Elements data,
                                          Range to) {
  std::vector<Range> parts;
  for (uint32_t i = 0; i < ranks; ++i) parts.push_back(part(Buffer::kSend, data, ranks, i));
  return scatter_parts(s, ranks, rank, parts, to);
}

Schedule reduce_scatter(uint32_t rank, const Blocks& from) {
  Schedule s;
  std::vector<Range> parts;
  for (const Block& block : from) parts.push_back(block.in(Buffer::kSend));
  const auto ranks = static_cast<uint32_t>(from.size());
  scatter_parts(s, ranks, rank, parts, {Buffer::kRecv, 0, from[rank].bytes});
  return s;
}

}  // namespace floe
