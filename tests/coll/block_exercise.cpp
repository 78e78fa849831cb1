#include "block_exercise.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "exercise.h"

namespace floe::test {
namespace {

constexpr std::byte kUntouched{0xa5};

}  // namespace

const std::vector<BlockCollective>& all_block_collectives() {
  using enum BlockCollective;
  static const std::vector<BlockCollective> list = {kAllGatherV, kReduceScatterV, kAllToAll, kAllToAllV,
                                                    kGather,     kGatherV,        kScatter,  kScatterV};
  return list;
}

std::string BlockShape::text() const {
  constexpr const char* names[] = {"all_gather_v", "reduce_scatter_v", "all_to_all", "all_to_all_v",
                                   "gather",       "gather_v",         "scatter",    "scatter_v"};
  return std::string(names[static_cast<int>(collective)]) + " of " + type_text(type) + ", blocks of " +
         std::to_string(largest) + " or less, " + op_text(op) + ", root " + std::to_string(root) +
         (in_place ? ", in place" : "") + (gaps ? ", with gaps" : "");
}

void BlockExercise::Buffer::resize(size_t size) {
  bytes.assign(size, kUntouched);
  want = bytes;
}
void BlockExercise::Buffer::put(size_t at, const Bytes& data) {
  expect(at, data);
  if (!data.empty()) std::memcpy(bytes.data() + at, data.data(), data.size());
}
void BlockExercise::Buffer::expect(size_t at, const Bytes& data) {
  if (!data.empty()) std::memcpy(want.data() + at, data.data(), data.size());
}

bool BlockExercise::v_form() const {
  using enum BlockCollective;
  const auto c = shape_.collective;
  return c != kAllToAll && c != kGather && c != kScatter;
}

// Elements that `from` has for `to`. Where all ranks have the same vector the other rank is always 0.
uint64_t BlockExercise::count(uint32_t from, uint32_t to) const {
  if (!v_form()) return shape_.largest;
  // In place two ranks' blocks for each other have one size.
  const bool symmetric = shape_.in_place && shape_.collective == BlockCollective::kAllToAllV;
  const uint32_t a = symmetric ? std::min(from, to) : from, b = symmetric ? std::max(from, to) : to;
  switch ((seed_ + a * 5 + b * 3) % 5) {
    case 0: return 0;
    case 1: return shape_.largest;
    case 2: return shape_.largest / 2;
    case 3: return std::min<uint64_t>(1, shape_.largest);
    default: return shape_.largest - shape_.largest / 7;
  }
}

Bytes BlockExercise::block(uint32_t from, uint32_t to) const {
  return input(shape_.type, shape_.op, count(from, to), from, seed_ * 100 + to);
}

template <class Count>
BlockExercise::Layout BlockExercise::lay_out(Count&& count) const {
  Layout layout;
  std::vector<uint32_t> order(rank_.size);
  std::iota(order.begin(), order.end(), 0);
  const bool gaps = shape_.gaps && v_form();
  std::mt19937_64 random(seed_ * 100 + rank_.rank);  // every rank has offsets of its own
  if (gaps) std::shuffle(order.begin(), order.end(), random);
  layout.counts.resize(rank_.size);
  layout.offsets.resize(rank_.size);
  for (const uint32_t i : order) {
    if (gaps) layout.elements += random() % 20;
    layout.counts[i] = count(i);
    layout.offsets[i] = layout.elements;
    layout.elements += layout.counts[i];
  }
  if (gaps) {
    layout.elements += 3;
    for (uint32_t i = 0; i < rank_.size; ++i)
      if (layout.counts[i] == 0) layout.offsets[i] = random();  // means nothing
  }
  return layout;
}

const uint64_t* BlockExercise::offsets(const Layout& layout) const {
  return shape_.gaps ? layout.offsets.data() : nullptr;
}

BlockExercise::BlockExercise(const Rank& rank, const BlockShape& shape, uint64_t seed)
    : rank_(rank), shape_(shape), seed_(seed), element_(element_size(shape.type)) {
  using enum BlockCollective;
  switch (shape.collective) {
    case kAllGatherV: prepare_all_gather(); break;
    case kReduceScatterV: prepare_reduce_scatter(); break;
    case kAllToAll:
    case kAllToAllV: prepare_all_to_all(); break;
    case kGather:
    case kGatherV: prepare_gather(); break;
    case kScatter:
    case kScatterV: prepare_scatter(); break;
  }
}

void BlockExercise::prepare_all_gather() {
  to_ = lay_out([&](uint32_t i) { return count(i, 0); });
  recv_.resize(to_.elements * element_);
  const Bytes own = block(rank_.rank, 0);
  if (shape_.in_place) {
    recv_.put(at(to_, rank_.rank), own);
  } else {
    send_.resize(own.size());
    send_.put(0, own);
  }
  for (uint32_t i = 0; i < rank_.size; ++i) recv_.expect(at(to_, i), block(i, 0));
}

void BlockExercise::prepare_reduce_scatter() {
  // Sizes depend on the receiver alone; values on both.
  from_ = lay_out([&](uint32_t i) { return count(i, 0); });
  const auto part = [&](uint32_t of, uint32_t to) {
    return input(shape_.type, shape_.op, count(to, 0), of, seed_ * 100 + to);
  };
  send_.resize(from_.elements * element_);
  for (uint32_t i = 0; i < rank_.size; ++i) send_.put(at(from_, i), part(rank_.rank, i));
  std::vector<Bytes> all;
  for (uint32_t i = 0; i < rank_.size; ++i) all.push_back(part(i, rank_.rank));
  const Bytes reduced = reduce_inputs(shape_.type, shape_.op, all);
  if (shape_.in_place) {
    send_.expect(at(from_, rank_.rank), reduced);
  } else {
    recv_.resize(reduced.size());
    recv_.expect(0, reduced);
  }
}

void BlockExercise::prepare_all_to_all() {
  to_ = lay_out([&](uint32_t i) { return count(i, rank_.rank); });
  recv_.resize(to_.elements * element_);
  if (shape_.in_place) {
    for (uint32_t i = 0; i < rank_.size; ++i) recv_.put(at(to_, i), block(rank_.rank, i));
  } else {
    from_ = lay_out([&](uint32_t i) { return count(rank_.rank, i); });
    send_.resize(from_.elements * element_);
    for (uint32_t i = 0; i < rank_.size; ++i) send_.put(at(from_, i), block(rank_.rank, i));
  }
  for (uint32_t i = 0; i < rank_.size; ++i) recv_.expect(at(to_, i), block(i, rank_.rank));
}

void BlockExercise::prepare_gather() {
  const Bytes own = block(rank_.rank, 0);
  if (is_root()) {
    to_ = lay_out([&](uint32_t i) { return count(i, 0); });
    recv_.resize(to_.elements * element_);
    if (shape_.in_place) recv_.put(at(to_, rank_.rank), own);
    for (uint32_t i = 0; i < rank_.size; ++i) recv_.expect(at(to_, i), block(i, 0));
  }
  if (!is_root() || !shape_.in_place) {
    send_.resize(own.size());
    send_.put(0, own);
  }
}

void BlockExercise::prepare_scatter() {
  // Block i of the root is as large as what rank i would gather.
  const Bytes own = block(rank_.rank, 0);
  if (is_root()) {
    from_ = lay_out([&](uint32_t i) { return count(i, 0); });
    send_.resize(from_.elements * element_);
    for (uint32_t i = 0; i < rank_.size; ++i) send_.put(at(from_, i), block(i, 0));
  }
  if (!is_root() || !shape_.in_place) {
    recv_.resize(own.size());
    recv_.expect(0, own);
  }
}

floe_status_t BlockExercise::start(floe_request_t** request) {
  using enum BlockCollective;
  const BlockShape& s = shape_;
  floe_comm_t* const comm = rank_.comm;
  void* recv = recv_.data();
  // Both spellings of "in place" are allowed where both exist: use one and the other.
  const bool spelled = seed_ % 2 == 0;
  const auto own = [&](Buffer& buffer, const Layout& layout) -> void* {
    return layout.counts[rank_.rank] == 0 ? nullptr : buffer.bytes.data() + at(layout, rank_.rank);
  };
  const void* send = s.in_place ? FLOE_IN_PLACE : send_.data();
  switch (s.collective) {
    case kAllGatherV:
      if (s.in_place && spelled) send = own(recv_, to_);
      return floe_all_gather_v(comm, send, recv, to_.counts.data(), offsets(to_), s.type, request);
    case kReduceScatterV:
      if (s.in_place) recv = own(send_, from_);
      return with_op(rank_, s.type, s.op, [&](floe_op_t op) {
        return floe_reduce_scatter_v(comm, send_.data(), recv, from_.counts.data(), offsets(from_), s.type,
                                     op, request);
      });
    case kAllToAll:
      if (s.in_place && spelled) send = recv;
      return floe_all_to_all(comm, send, recv, s.largest, s.type, request);
    case kAllToAllV:
      return floe_all_to_all_v(comm, send, s.in_place ? nullptr : from_.counts.data(),
                               s.in_place ? nullptr : offsets(from_), recv, to_.counts.data(), offsets(to_),
                               s.type, request);
    default: break;
  }
  const bool gathers = s.collective == kGather || s.collective == kGatherV;
  send = send_.data();
  if (s.in_place && is_root() && gathers) send = spelled ? own(recv_, to_) : FLOE_IN_PLACE;
  if (s.in_place && is_root() && !gathers)
    recv = spelled ? own(send_, from_) : const_cast<void*>(FLOE_IN_PLACE);
  return start_rooted(send, recv, request);
}

floe_status_t BlockExercise::start_rooted(const void* send, void* recv, floe_request_t** request) {
  using enum BlockCollective;
  const BlockShape& s = shape_;
  floe_comm_t* const comm = rank_.comm;
  const uint64_t mine = count(rank_.rank, 0);
  // Arrays of a rank that is not the root are not used: NULL and anything will do.
  const std::vector<uint64_t> nonsense(rank_.size, UINT64_MAX);
  const uint64_t* const unused = seed_ % 2 ? nonsense.data() : nullptr;
  switch (s.collective) {
    case kGather: return floe_gather(comm, send, recv, s.largest, s.type, s.root, request);
    case kScatter: return floe_scatter(comm, send, recv, s.largest, s.type, s.root, request);
    case kGatherV:
      return floe_gather_v(comm, send, send == FLOE_IN_PLACE ? UINT64_MAX : mine, recv,
                           is_root() ? to_.counts.data() : unused, is_root() ? offsets(to_) : unused, s.type,
                           s.root, request);
    default:
      return floe_scatter_v(comm, send, is_root() ? from_.counts.data() : unused,
                            is_root() ? offsets(from_) : unused, recv,
                            recv == FLOE_IN_PLACE ? UINT64_MAX : mine, s.type, s.root, request);
  }
}

testing::AssertionResult BlockExercise::check() const {
  // Bits, but for sums, where NaN is NaN.
  const bool sums = shape_.collective == BlockCollective::kReduceScatterV;
  const auto same = [&](const Buffer& b) {
    if (sums) return same_elements(shape_.type, b.bytes, b.want);
    const auto differs = std::mismatch(b.bytes.begin(), b.bytes.end(), b.want.begin());
    if (differs.first == b.bytes.end()) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "byte " << differs.first - b.bytes.begin() << " of " << b.bytes.size() << " is wrong";
  };
  if (auto result = same(send_); !result) return result << " (send)";
  if (auto result = same(recv_); !result) return result << " (recv)";
  return testing::AssertionSuccess();
}

void BlockExercise::run() {
  ASSERT_FLOE_OK(start(nullptr)) << shape_.text();
  EXPECT_TRUE(check()) << shape_.text();
}

}  // namespace floe::test
