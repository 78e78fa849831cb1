#include "engine/operation.h"

#include <array>
#include <string_view>

#include "base/types.h"

namespace floe {
namespace {

constexpr std::array<std::string_view, 8> kKindNames = {
    "send", "recv", "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"};

std::string_view kind_name(uint8_t kind) {
  return kind < kKindNames.size() ? kKindNames[kind] : "unknown operation";
}

bool has_op(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}
bool has_root(Kind kind) { return kind == Kind::kReduce || kind == Kind::kBroadcast; }

std::string arguments(const Descriptor& d) {
  const auto kind = static_cast<Kind>(d.kind);
  if (kind == Kind::kBarrier) return {};
  std::string text = fmt::format(" ({} x {}", type_name(d.type), d.count);
  if (has_op(kind)) text += fmt::format(", {}", op_name(d.op));
  if (has_root(kind)) text += fmt::format(", root {}", d.root);
  return text + ")";
}

}  // namespace

std::string describe(const Descriptor& d) { return std::string(kind_name(d.kind)) + arguments(d); }

uint32_t hash(const Descriptor& d) {
  // splitmix64's finaliser over the fields (Steele et al. 2014).
  const auto mix = [](uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  };
  const uint64_t fields =
      uint64_t{d.kind} | uint64_t{d.op} << 8 | uint64_t{d.type} << 16 | uint64_t{d.root} << 32;
  return static_cast<uint32_t>(mix(mix(fields + 0x9e3779b97f4a7c15) + d.count)) | 1;
}

Status mismatch(uint32_t rank, const Descriptor& called, uint32_t other, const Descriptor& other_called) {
  return error(FLOE_ERR_MISMATCH,
               "rank {} called {} where rank {} called {}; all ranks must call the same collective with the "
               "same arguments",
               rank, describe(called), other, describe(other_called));
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
