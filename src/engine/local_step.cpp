#include "engine/local_step.h"

#include <algorithm>
#include <vector>

#include "base/copy.h"
#include "base/types.h"
#include "reduce/reduce.h"

namespace floe {
namespace {

const std::byte* source_at(const Buffers& buffers, const Range& range, const Arrival& arrival) {
  const bool arrives =
      arrival.data && range.buffer == arrival.place.buffer && range.offset == arrival.place.offset;
  return arrives ? arrival.data : at(buffers, range);
}

void copy(const Range& to, const Range& from, const Buffers& buffers, const Arrival& arrival) {
  std::byte* const target = at(buffers, to);
  const std::byte* const source = source_at(buffers, from, arrival);
  if (to.narrow && !from.narrow)
    narrow(target, source, to.bytes / sizeof(uint16_t));
  else if (from.narrow && !to.narrow)
    widen(target, source, to.bytes / sizeof(float));
  else if (target != source)
    copy_bytes(target, source, to.bytes);
}

}  // namespace

void run_local(const Step& step, const Buffers& buffers, const Arithmetic& a, const Arrival& arrival) {
  if (step.range.bytes == 0) return;
  if (step.kind == Step::Kind::kCopy) return copy(step.range, step.sources[0], buffers, arrival);
  const auto is_narrow = [](const Range& range) { return range.narrow; };
  if (is_narrow(step.range) || std::any_of(step.sources.begin(), step.sources.end(), is_narrow)) {
    std::vector<Source> sources;
    for (const Range& range : step.sources)
      sources.push_back({source_at(buffers, range, arrival), range.narrow});
    const uint64_t element = step.range.narrow ? sizeof(uint16_t) : sizeof(float);
    reduce_mixed(at(buffers, step.range), step.range.narrow, sources, step.range.bytes / element, a.op,
                 a.ranks, a.factors);
    return;
  }
  std::vector<const void*> sources;
  for (const Range& range : step.sources) sources.push_back(source_at(buffers, range, arrival));
  void* const destination[] = {at(buffers, step.range)};
  const int op = step.partial && a.op == FLOE_AVG ? static_cast<int>(FLOE_SUM) : a.op;
  reduce(destination, sources, step.range.bytes / type_size(a.type), a.type, op, a.ranks, a.factors);
}

}  // namespace floe
