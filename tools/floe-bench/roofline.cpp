#include "roofline.h"

#include <algorithm>
#include <cstdlib>

#include "reduce/reduce.h"

namespace floe::bench {
namespace {

// As long as one that floe adds in one go.
constexpr uint64_t kSliceBytes = 256 << 10;

// Every rank's part, all of them in this rank's buffers: in each it reads and writes one part in full.
void pass(const Call& call) {
  const size_t element = type_size(call.type);
  const uint64_t part = call.count / call.ranks;
  std::vector<const void*> from(call.ranks);
  std::vector<void*> to(call.ranks);
  const auto add = [&](uint32_t blocks, uint64_t begin, uint64_t count) {
    for (uint32_t block = 0; block < blocks; ++block) {
      from[block] = static_cast<const std::byte*>(call.send) + (block * part + begin) * element;
      to[block] = static_cast<std::byte*>(call.recv) + (block * part + begin) * element;
    }
    reduce({to.data(), blocks}, {from.data(), blocks}, count, call.type, FLOE_SUM, blocks);
  };
  const uint64_t slice = kSliceBytes / element;
  for (uint64_t begin = 0; begin < part; begin += slice)
    add(call.ranks, begin, std::min(slice, part - begin));
  add(1, call.ranks * part, call.count - call.ranks * part);
}

}  // namespace

Roofline::Roofline(const Session& session)
    : session_(session), buffers_({[](size_t bytes) { return std::malloc(bytes); }, std::free}) {}

Result<Timings> Roofline::run(const Case& what, uint64_t iterations) {
  Timings timings;
  timings.measured = what.op->kind == Kind::kAllReduce;
  if (!timings.measured) return timings;
  Case own = what;
  own.manner.heap = false;
  const auto call = buffers_.prepare(own, session_.rank(), session_.ranks());
  if (!call) return error(FLOE_ERR_SYSTEM, "no memory for the buffers: give smaller --sizes");
  const auto once = [&] {
    pass(*call);
    return true;
  };
  Status status;
  const auto meet = [&] { return (status = session_.barrier()).ok(); };
  if (!measure(own, *call, session_.ticks(), iterations, once, meet, timings)) return status;
  timings.errors = 0;
  return timings;
}

}  // namespace floe::bench
