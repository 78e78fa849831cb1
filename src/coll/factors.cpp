#include "coll/algorithms.h"

namespace floe {

WithFactors with_factors(const Schedule& reduction, uint32_t ranks, uint32_t rank) {
  constexpr uint16_t kTag = 0xFFFF;  // of no algorithm
  WithFactors result;
  Schedule& s = result.schedule;
  s.scratch(reduction.scratch_bytes());  // where it was
  result.at = s.scratch(ranks * sizeof(double));
  const auto place = [&](uint32_t of) {
    return Range{Buffer::kScratch, result.at + of * sizeof(double), sizeof(double)};
  };
  std::vector<StepId> received;
  for (uint32_t step = 1; step < ranks; ++step) {
    const uint32_t to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    s.send(to, kTag, place(rank));
    received.push_back(s.receive(from, kTag, place(from)));
  }
  const auto shift = static_cast<StepId>(s.steps().size());
  for (Step step : reduction.steps()) {
    for (StepId& need : step.needs) need += shift;
    if (step.reader != 0) step.reader += shift;
    if (step.kind == Step::Kind::kReduce)
      step.needs.insert(step.needs.end(), received.begin(), received.end());
    s.add(std::move(step));
  }
  return result;
}

}  // namespace floe
