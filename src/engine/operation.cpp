#include "engine/operation.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/types.h"

namespace floe {
namespace {

constexpr std::array<std::string_view, 18> kKindNames = {
    "send",           "recv",     "all_reduce",   "reduce",           "broadcast",  "all_gather",
    "reduce_scatter", "barrier",  "all_gather_v", "reduce_scatter_v", "all_to_all", "all_to_all_v",
    "gather",         "gather_v", "scatter",      "scatter_v",        "split",      "creation"};

std::string_view kind_name(uint8_t kind) {
  return kind < kKindNames.size() ? kKindNames[kind] : "unknown operation";
}

bool has_op(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter ||
         kind == Kind::kReduceScatterV;
}
bool has_root(Kind kind) {
  return kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather ||
         kind == Kind::kGatherV || kind == Kind::kScatter || kind == Kind::kScatterV;
}
bool has_digest(Kind kind) { return kind == Kind::kAllGatherV || kind == Kind::kReduceScatterV; }

std::string arguments(const Descriptor& d) {
  const auto kind = static_cast<Kind>(d.kind);
  if (kind == Kind::kBarrier || kind == Kind::kSplit || kind == Kind::kCreation) return {};
  std::string text = fmt::format(" ({}", type_name(d.type));
  if (has_digest(kind))
    text += fmt::format(" x {} in all, counts with digest {:#010x}", d.count, d.root);
  else if (!is_v_form(d.kind))
    text += fmt::format(" x {}", d.count);
  if (has_op(kind)) text += fmt::format(", {}", op_name(d.op));
  if (kind == Kind::kAllReduce && d.root != 0)
    text += fmt::format(", {} between hosts", type_name(static_cast<int>(d.root)));
  if (has_root(kind)) text += fmt::format(", root {}", d.root);
  return text + ")";
}

}  // namespace

bool is_v_form(uint8_t kind) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kAllGatherV:
    case Kind::kReduceScatterV:
    case Kind::kAllToAllV:
    case Kind::kGatherV:
    case Kind::kScatterV: return true;
    default: return false;
  }
}

std::string describe(const Descriptor& d) { return std::string(kind_name(d.kind)) + arguments(d); }

Status mismatch(uint32_t rank, const Descriptor& called, uint32_t other, const Descriptor& other_called) {
  return error(FLOE_ERR_MISMATCH,
               "rank {} called {} where rank {} called {}; all ranks must call the same collective with the "
               "same arguments",
               rank, describe(called), other, describe(other_called));
}

Status size_mismatch(const Descriptor& called, uint32_t from, uint64_t sent_bytes, uint32_t to,
                     uint64_t expected_bytes) {
  const uint64_t element = std::max<uint64_t>(1, type_size(called.type));
  return error(FLOE_ERR_MISMATCH,
               "{}: rank {} sends {} elements to rank {}, which expects {} from it; the counts that the two "
               "pass for this block must be the same",
               describe(called), from, sent_bytes / element, to, expected_bytes / element);
}

std::string Operation::title() const {
  return fmt::format("{} #{}{} on '{}'", kind_name(descriptor_.kind), sequence_, arguments(descriptor_),
                     group_);
}

void Operation::finish(Status status) {
  status_ = std::move(status);
  // Release: pairs with the acquire in complete().
  complete_.store(true, std::memory_order_release);
  if (callback_) callback_(callback_user_, status_.code(), status_.message().c_str());
}

bool Operation::set_callback(Callback callback, void* user) {
  if (callback_) return false;
  callback_ = callback;
  callback_user_ = user;
  if (complete()) callback_(callback_user_, status_.code(), status_.message().c_str());
  return true;
}

}  // namespace floe
