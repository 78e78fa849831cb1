// One block of measured calls: alike for floe and for every peer that is a program of ours.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/types.h"
#include "flush.h"
#include "operations.h"
#include "pattern.h"
#include "ticks.h"

namespace floe::bench {

// How a call's buffers lie, and what is done to them.
struct Manner {
  bool cold = false;    // not in any cache when the call begins
  bool touch = false;   // a call's time includes writing what is sent and reading what came
  bool heap = false;    // of the library's own allocator: floe_mem_alloc, MPI_Alloc_mem
  uint64_t offset = 0;  // bytes after the start of a page
  bool cpu = false;     // a call's CPU time is measured, too, which takes some time between the calls
};

struct Case {
  const Operation* op = nullptr;
  floe_type_t type = FLOE_FLOAT32;
  uint64_t count = 0;  // elements of one rank's part
  bool in_place = false;
  Manner manner;
};

struct Timings {
  std::vector<double> us;  // one an iteration, on this rank
  uint64_t errors = 0;     // wrong elements on this rank
  bool measured = true;    // false: the library has no such operation or type; so on all ranks
  uint64_t cpu_ns = 0;     // with Manner::cpu: of all this process's threads during the calls, together
};

inline uint64_t process_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

// Reads every byte once.
inline uint64_t read_all(const void* data, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  uint64_t sum = 0, word = 0;
  for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
    std::memcpy(&word, at, sizeof(word));
    sum += word;
  }
  word = 0;
  std::memcpy(&word, at, bytes);
  return sum + word;
}

// What the root of a rooted operation does between calls and this rank need not. It does as much
// nevertheless: who enters a call early measures how late the others are.
struct IdleWork {
  explicit IdleWork(const Operation& op, const Call& call) {
    if (op.send_parts(call.rank, call.ranks) == 0) fills = op.send_parts(kRoot, call.ranks);
    if (!op.result(call).empty()) return;
    Call roots = call;
    roots.rank = kRoot;
    checks = op.result(roots);
    for (Part& part : checks) part.at = 0;
  }
  uint32_t fills = 0;        // of one part, where this rank receives
  std::vector<Part> checks;  // of what this rank sends
};

// `iterations` calls of `function` with new data each, every one timed alone, after another one, which is
// not; the results of that and of the last are checked. To check takes longer than a call, and not as long on
// each rank, nor does it to take buffers out of the caches: then ranks `meet`, or whoever is done first would
// measure how late the others are. False as soon as one of both returns false.
template <class Function, class Meet>
bool measure(const Case& what, const Call& call, const Ticks& ticks, uint64_t iterations, Function&& function,
             Meet&& meet, Timings& timings) {
  const Operation& op = *what.op;
  const Pattern pattern(what.type, call.ranks);
  const auto expected = op.result(call);
  const IdleWork idle(op, call);
  const uint64_t send_count = call.count * op.send_parts(call.rank, call.ranks);
  const uint64_t recv_count = expected.empty() ? 0 : call.count * op.recv_parts(call.rank, call.ranks);
  const size_t element = type_size(what.type);
  const bool fill_inside = what.manner.touch && op.sends(call.rank);
  volatile uint64_t sink = 0;

  timings.us.resize(iterations);  // its pages are touched before the calls
  for (uint64_t i = 0; i <= iterations; ++i) {
    if (!fill_inside) pattern.fill(call.send, send_count, call.rank, i);
    for (uint32_t fill = 0; fill < idle.fills; ++fill) pattern.fill(call.recv, call.count, call.rank, i);
    if (what.manner.cold) {
      floe_bench_flush(call.send, send_count * element);
      floe_bench_flush(call.recv, recv_count * element);
      if (!meet()) return false;
    }
    const uint64_t cpu_begin = what.manner.cpu ? process_cpu_ns() : 0;
    const uint64_t begin = Ticks::now();
    if (fill_inside) pattern.fill(call.send, send_count, call.rank, i);
    if (!function()) return false;
    if (what.manner.touch) sink = sink + read_all(call.recv, recv_count * element);
    const uint64_t end = Ticks::now();
    if (i != 0) timings.us[i - 1] = ticks.us(begin, end);
    if (i != 0 && what.manner.cpu) timings.cpu_ns += process_cpu_ns() - cpu_begin;
    if (i != 0 && i != iterations) continue;
    timings.errors += pattern.errors(call.recv, expected, i);
    sink = sink + pattern.errors(call.send, idle.checks, i);
    if (i == 0 && !meet()) return false;
  }
  return true;
}

}  // namespace floe::bench
