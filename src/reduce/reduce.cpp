#include "reduce/reduce.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cctype>
#include <deque>
#include <optional>
#include <vector>

#include "base/copy.h"
#include "base/cpu.h"
#include "base/types.h"
#include "reduce/float_environment.h"
#include "reduce/kernels.h"

namespace floe {
namespace {

// AVX512-BF16, which Highway's targets do not tell.
bool has_native_bf16([[maybe_unused]] int64_t target) {
#if HWY_ARCH_X86
  __builtin_cpu_init();
  return target <= HWY_AVX3 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// The instruction sets of this machine, best first, each with its kernels, and the one in use. Only which one
// that is ever changes: whoever reduces meanwhile has the old kernels or the new, and the same bits from
// both.
class Dispatch {
 public:
  Dispatch() {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {  // best first
      std::string name = hwy::TargetName(target);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const bool native_bf16 = names_.empty() && has_native_bf16(target);
      // An Intel takes longer for that: sums at 20 GB/s, without it at 25 (Emerald Rapids).
      if (native_bf16 && !is_intel()) add(name + "_bf16", target, true);
      add(name, target, false);
      if (native_bf16 && is_intel()) add(name + "_bf16", target, true);
    }
    use(0);
  }

  std::span<const std::string> names() const { return names_; }
  const std::string& name() const { return current()->name; }
  const KernelSet& kernels(int type, int op) const { return current()->table[type][op]; }
  const Conversions& conversions() const { return current()->conversions; }
  // Relaxed, as in current(): the sets are complete before anybody has this object.
  void use(size_t index) { current_.store(&sets_[index], std::memory_order_relaxed); }

 private:
  struct InstructionSet {
    std::string name;
    Conversions conversions;
    KernelTable table;
  };

  const InstructionSet* current() const { return current_.load(std::memory_order_relaxed); }

  void add(std::string name, int64_t target, bool native_bf16) {
    names_.push_back(name);
    KernelTable& table =
        sets_.emplace_back(InstructionSet{std::move(name), floe::conversions(target), {}}).table;
    add_float_kernels(target, table);
    add_float8_kernels(target, table);
    add_half_kernels(target, table);
    if (native_bf16) add_native_bf16_kernels(target, table);
    add_integer_kernels(target, table);
    add_complex_kernels(table);
    borrow(table);
  }

  // Bitwise operations see bytes, from which nothing is carried to the next; sums of complex numbers see
  // their real and imaginary parts.
  static void borrow(KernelTable& table) {
    const auto as = [&](int type, int op, int other) {
      const size_t parts = type_size(type) / type_size(other);
      table[type][op] = table[other][op];
      table[type][op].parts_log2 = static_cast<uint8_t>(std::countr_zero(parts));
    };
    for (int type = 0; type < kTypes; ++type)
      for (int op = 0; op < kOps; ++op)
        if (is_bitwise(op) && is_defined(type, op) && type != FLOE_BOOL) as(type, op, FLOE_UINT8);
    for (const int op : {FLOE_SUM, FLOE_AVG}) {
      as(FLOE_COMPLEX64, op, FLOE_FLOAT32);
      as(FLOE_COMPLEX128, op, FLOE_FLOAT64);
    }
  }

  std::vector<std::string> names_;
  std::deque<InstructionSet> sets_;  // of the same index; they stay where they are
  std::atomic<const InstructionSet*> current_{nullptr};
};

Dispatch& dispatch() {
  static Dispatch the_one;
  return the_one;
}

void copy(void* to, const void* from, size_t bytes) {
  if (to != from) copy_bytes(to, from, bytes);
}

Kernel choose(const KernelSet& set, size_t sources, size_t destinations) {
  if (sources == 2) return destinations == 1 ? set.two_to_one : set.two_to_two;
  return destinations == 1 ? set.any_to_one : set.any_to_two;
}

// What Job::ahead is to be: a source may be what another core has written.
uint32_t ahead(uint64_t count, int type) {
  return is_fetched_ahead(count * type_size(type)) ? kFetchAhead : 0;
}

// Kernels write to two destinations at most. Further ones get copies, in pieces that are still in the first
// cache when they are copied.
void reduce_to_many(Kernel kernel, std::span<void* const> dsts, const Job& whole, size_t element) {
  constexpr uint64_t kPieceBytes = 8192;
  const uint64_t piece = kPieceBytes / element;
  Job job = whole;
  for (; job.begin < whole.end; job.begin = job.end) {
    job.end = std::min(whole.end, job.begin + piece);
    kernel(job);
    const size_t offset = job.begin * element;
    const size_t bytes = (job.end - job.begin) * element;
    const auto* result = static_cast<const std::byte*>(dsts[0]) + offset;
    for (void* to : dsts.subspan(2)) copy(static_cast<std::byte*>(to) + offset, result, bytes);
  }
}

// What to use instead of an operation that is not defined.
std::string_view advice(int type, int op) {
  if (is_bitwise(op)) return "use an integer type or bool";
  if (op == kPremulSum) return "use a floating-point type";
  if (op == FLOE_AVG) return "use sum, or a floating-point type";
  return is_complex(type) ? "complex numbers have no order" : "use another operation";
}

}  // namespace

Status bad_reduction(int type, int op) {
  if (type_size(type) == 0)
    return error(FLOE_ERR_ARGUMENT, "{} is not a floe_type_t: use 0 (float32) to {} ({})", type, kTypes - 1,
                 type_name(kTypes - 1));
  if (op < FLOE_SUM || op >= kOps)
    return error(FLOE_ERR_ARGUMENT, "{} is not a floe_op_t: use 0 (sum) to {} ({})", op, kPremulSum - 1,
                 op_name(kPremulSum - 1));
  return error(FLOE_ERR_UNSUPPORTED, "{} of {} is not defined: {}", op_name(op), type_name(type),
               advice(type, op));
}

void reduce(std::span<void* const> dsts, std::span<const void* const> srcs, uint64_t count, int type, int op,
            uint32_t divisor, std::span<const double> factors) {
  assert(!dsts.empty() && !srcs.empty() && check_reduction(type, op).ok() &&
         (op != FLOE_AVG || divisor > 0) && (op != kPremulSum || factors.size() == srcs.size()));
  if (count == 0) return;
  if (srcs.size() == 1 && op != FLOE_AVG && op != kPremulSum) {
    for (void* to : dsts) copy(to, srcs[0], count * type_size(type));
    return;
  }

  const KernelSet& set = dispatch().kernels(type, op);
  const Kernel kernel = choose(set, srcs.size(), dsts.size());
  const Job job{srcs.data(),
                srcs.size(),
                {dsts[0], dsts[dsts.size() > 1]},
                0,
                count << set.parts_log2,
                divisor,
                factors.data(),
                ahead(count, type)};
  const FloatEnvironment environment;
  if (dsts.size() <= 2) {
    kernel(job);
  } else {
    reduce_to_many(kernel, dsts, job, type_size(type) >> set.parts_log2);
  }
}

FixedReduction::FixedReduction(uint64_t count, int type, int op, uint32_t sources) : sources_(sources) {
  assert(sources > 1 && op != kPremulSum && check_reduction(type, op).ok());
  const KernelSet& set = dispatch().kernels(type, op);
  kernel_ = choose(set, sources, 1);
  count_ = count << set.parts_log2;
  ahead_ = ahead(count, type);
}

void FixedReduction::operator()(void* destination, const void* const* sources) const {
  const FloatEnvironment environment;
  kernel_({sources, sources_, {destination, destination}, 0, count_, sources_, nullptr, ahead_});
}

void narrow(void* bfloat16, const void* float32, uint64_t count) {
  dispatch().conversions().narrow(bfloat16, float32, count);
}

void widen(void* float32, const void* bfloat16, uint64_t count) {
  dispatch().conversions().widen(float32, bfloat16, count);
}

Status set_isa(std::string_view name) {
  Dispatch& d = dispatch();
  const auto names = d.names();
  const auto found = name.empty() ? names.begin() : std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return error(FLOE_ERR_ENVIRONMENT,
                 "FLOE_ISA='{}' is not an instruction set of this machine: use one of {}", name,
                 fmt::join(names, ", "));
  d.use(static_cast<size_t>(found - names.begin()));
  return {};
}

std::string_view isa_name() { return dispatch().name(); }
std::span<const std::string> isa_names() { return dispatch().names(); }

}  // namespace floe
