#include "exercise.h"

#include <algorithm>
#include <cstring>

namespace floe::test {
namespace {

constexpr size_t kGuard = 256;
constexpr std::byte kUntouched{0xa5};

const char* collective_text(Collective collective) {
  constexpr const char* names[] = {"all_reduce", "reduce",         "broadcast",
                                   "all_gather", "reduce_scatter", "barrier"};
  return names[static_cast<int>(collective)];
}

size_t input_parts(const Shape& shape, uint32_t size) {
  if (shape.collective == Collective::kBarrier) return 0;
  return shape.collective == Collective::kReduceScatter ? size : 1;
}

size_t output_parts(const Shape& shape, uint32_t size) {
  if (shape.collective == Collective::kBarrier) return 0;
  return shape.collective == Collective::kAllGather ? size : 1;
}

}  // namespace

const std::vector<Collective>& all_collectives() {
  static const std::vector<Collective> list = {Collective::kAllReduce,     Collective::kReduce,
                                               Collective::kBroadcast,     Collective::kAllGather,
                                               Collective::kReduceScatter, Collective::kBarrier};
  return list;
}

bool reduces(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduce || c == Collective::kReduceScatter;
}

std::string Shape::text() const {
  return std::string(collective_text(collective)) + " of " + type_text(type) + " x " + std::to_string(count) +
         ", " + op_text(op) + ", root " + std::to_string(root) + (in_place ? ", in place" : "") +
         ", misaligned by " + std::to_string(misalign);
}

Exercise::Guarded::Guarded(size_t size, size_t misalign, floe_context_t* from) : bytes(size), context(from) {
  const size_t whole = size + 2 * kGuard + 64;
  if (context) {
    void* memory = nullptr;
    EXPECT_FLOE_OK(floe_mem_alloc(context, whole, &memory));
    block = {static_cast<std::byte*>(memory), whole};
  } else {
    own.resize(whole);
    block = own;
  }
  std::fill(block.begin(), block.end(), kUntouched);
  const size_t past_line = reinterpret_cast<uintptr_t>(block.data()) % 64;
  offset = kGuard - past_line % 64 + misalign;
}
Exercise::Guarded::~Guarded() {
  if (context) {
    EXPECT_FLOE_OK(floe_mem_free(context, block.data()));
  }
}
std::byte* Exercise::Guarded::data() { return block.data() + offset; }
const std::byte* Exercise::Guarded::data() const { return block.data() + offset; }
bool Exercise::Guarded::intact() const {
  const auto untouched = [](std::byte b) { return b == kUntouched; };
  const auto begin = block.begin() + static_cast<ptrdiff_t>(offset);
  return std::all_of(block.begin(), begin, untouched) &&
         std::all_of(begin + static_cast<ptrdiff_t>(bytes), block.end(), untouched);
}

Exercise::Exercise(const Rank& rank, const Shape& shape, uint64_t seed)
    : rank_(rank),
      shape_(shape),
      seed_(seed),
      part_(shape.count * element_size(shape.type)),
      input_(input(shape.type, shape.op, shape.count * input_parts(shape, rank.size), rank.rank, seed,
                   shape.values)),
      send_buffer_(input_.size(), shape.misalign, shape.allocated ? rank.context : nullptr),
      recv_buffer_(part_ * output_parts(shape, rank.size), shape.misalign,
                   shape.allocated ? rank.context : nullptr) {
  place();
  if (!input_.empty()) std::memcpy(const_cast<std::byte*>(send_), input_.data(), input_.size());
}

// Where the operation reads and writes; in place they share a buffer.
void Exercise::place() {
  send_ = send_buffer_.data();
  recv_ = recv_buffer_.data();
  recv_bytes_ = recv_buffer_.bytes;
  switch (shape_.collective) {
    case Collective::kAllReduce:
      if (shape_.in_place) send_ = recv_;
      break;
    case Collective::kReduce:
      if (shape_.in_place && is_root()) send_ = recv_;
      if (!is_root()) recv_bytes_ = 0;
      break;
    case Collective::kBroadcast: send_ = recv_; break;
    case Collective::kAllGather:
      if (shape_.in_place) send_ = recv_ + rank_.rank * part_;
      break;
    case Collective::kReduceScatter:
      if (shape_.in_place) recv_ = send_buffer_.data() + rank_.rank * part_;
      break;
    case Collective::kBarrier: break;
  }
}

Rank described(const Rank& parent, floe_comm_t* comm) {
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  EXPECT_FLOE_OK(floe_comm_info(comm, &info));
  return {parent.context, comm, info.rank, info.size};
}

void use(const Rank& rank) {
  uint64_t seed = 1;
  for (const auto collective : all_collectives())
    for (const uint64_t count : {1, 50'000})
      Exercise(rank, {.collective = collective, .count = count}, seed++).run();
}

floe_status_t with_op(const Rank& rank, floe_type_t type, floe_op_t op,
                      const std::function<floe_status_t(floe_op_t)>& call) {
  if (op != kPremulSum) return call(op);
  const float factor = premul_factor(rank.rank);
  const Bytes scalar = from_float(type, {&factor, 1});
  floe_op_t handle = FLOE_SUM;
  floe_status_t status = floe_op_create_premul_sum(rank.comm, scalar.data(), type, &handle);
  if (status != FLOE_OK) return status;
  status = call(handle);
  // What is under way does not need it any more.
  EXPECT_FLOE_OK(floe_op_destroy(rank.comm, handle));
  return status;
}

floe_status_t Exercise::start(floe_request_t** request) {
  return with_op(rank_, shape_.type, shape_.op, [&](floe_op_t op) { return start(op, request); });
}

floe_status_t Exercise::start(floe_op_t op, floe_request_t** request) {
  const Shape& s = shape_;
  // Both spellings of "in place" are allowed where both exist: use one and the other.
  const bool marker = s.in_place && send_ >= recv_ && seed_ % 2 == 0;
  const void* send = marker ? FLOE_IN_PLACE : send_;
  switch (s.collective) {
    case Collective::kAllReduce:
      return floe_all_reduce(rank_.comm, send, recv_, s.count, s.type, op, request);
    case Collective::kReduce:
      // The others' receive buffer is not used: NULL and any pointer will do.
      if (!is_root())
        return floe_reduce(rank_.comm, send_, seed_ % 3 ? recv_ : nullptr, s.count, s.type, op, s.root,
                           request);
      return floe_reduce(rank_.comm, send, recv_, s.count, s.type, op, s.root, request);
    case Collective::kBroadcast: return floe_broadcast(rank_.comm, recv_, s.count, s.type, s.root, request);
    case Collective::kAllGather: return floe_all_gather(rank_.comm, send, recv_, s.count, s.type, request);
    case Collective::kReduceScatter:
      return floe_reduce_scatter(rank_.comm, send_, recv_, s.count, s.type, op, request);
    case Collective::kBarrier: break;
  }
  return floe_barrier(rank_.comm, request);
}

std::vector<Bytes> Exercise::inputs() const {
  std::vector<Bytes> all;
  const uint64_t count = shape_.count * input_parts(shape_, rank_.size);
  for (uint32_t rank = 0; rank < rank_.size; ++rank)
    all.push_back(input(shape_.type, shape_.op, count, rank, seed_, shape_.values));
  return all;
}

Bytes Exercise::expected() const {
  if (shape_.collective == Collective::kBroadcast)
    return input(shape_.type, shape_.op, shape_.count, shape_.root, seed_, shape_.values);
  const auto all = inputs();
  if (shape_.collective == Collective::kAllGather) {
    Bytes joined;
    for (const Bytes& one : all) joined.insert(joined.end(), one.begin(), one.end());
    return joined;
  }
  Bytes reduced = reduce_inputs(shape_.type, shape_.op, all);
  if (shape_.collective != Collective::kReduceScatter) return reduced;
  const auto mine = reduced.begin() + static_cast<ptrdiff_t>(rank_.rank * part_);
  return {mine, mine + static_cast<ptrdiff_t>(part_)};
}

testing::AssertionResult Exercise::check() const {
  if (!send_buffer_.intact())
    return testing::AssertionFailure() << "bytes around the send buffer were written";
  if (!recv_buffer_.intact())
    return testing::AssertionFailure() << "bytes around the receive buffer were written";
  if (recv_bytes_ > 0) {
    const Bytes want = expected();
    if (auto same = same_elements(shape_.type, received(), want); !same) return same;
  } else if (recv_buffer_.bytes > 0 && !is_root() &&
             !std::all_of(recv_, recv_ + recv_buffer_.bytes, [](std::byte b) { return b == kUntouched; })) {
    return testing::AssertionFailure() << "the receive buffer of a rank that is not the root was written";
  }
  // What is left of the input: all of it, or in a reduce_scatter in place all but the result.
  const std::byte* kept = send_buffer_.data();
  for (size_t i = 0; send_ == kept && i < input_.size(); ++i) {
    const bool overwritten = kept + i >= recv_ && kept + i < recv_ + recv_bytes_;
    if (!overwritten && kept[i] != input_[i])
      return testing::AssertionFailure() << "byte " << i << " of the input was written";
  }
  return testing::AssertionSuccess();
}

void Exercise::run() {
  ASSERT_FLOE_OK(start(nullptr)) << shape_.text();
  EXPECT_TRUE(check()) << shape_.text();
}

}  // namespace floe::test
