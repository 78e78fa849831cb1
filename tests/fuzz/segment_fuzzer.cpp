// What peers write into the shared memory that this rank reads: flags, states and fault records in their
// segments, the alarm in its own, packets in their rings; with collectives and messages under way.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <tuple>

#include "coll/algorithms.h"
#include "comm/descriptor.h"
#include "engine/group.h"

namespace floe {
namespace {

constexpr uint32_t kRanks = 3;
constexpr size_t kMost = 4096;

// Made once: 4 MiB each.
std::vector<std::shared_ptr<Segment>>& segments() {
  static auto all = [] {
    std::vector<std::shared_ptr<Segment>> made;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      auto segment = Segment::create(kRanks, rank, 1 + rank);
      if (!segment.ok()) std::abort();
      made.push_back(std::move(*segment));
    }
    return made;
  }();
  return all;
}

class Fuzzed {
 public:
  explicit Fuzzed(FuzzedDataProvider& input) : input_(input), group_(config()) {}

  void run() {
    while (input_.remaining_bytes() != 0) {
      switch (input_.ConsumeIntegralInRange<int>(0, 7)) {
        case 0: direct(); break;
        case 1: scheduled(); break;
        case 2: message(Kind::kRecv); break;
        case 3: message(Kind::kSend); break;
        case 4: group_.progress(); break;
        case 5: group_.check(); break;
        default: write();
      }
      expect_sense();
    }
    group_.leave();
    if (group_.busy()) __builtin_trap();
    for (const auto& operation : operations_)
      if (!operation->complete()) __builtin_trap();
  }

 private:
  GroupConfig config() {
    GroupConfig config;
    config.name = "fuzz";
    config.key = 7;
    config.timeout_ms = 1000;
    config.shm = std::make_unique<ShmTransport>(segments(), 0);
    config.direct =
        std::make_unique<DirectPath>(segments(), 0, Choices(static_cast<uint32_t>(segments().size())));
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      Member member;
      member.who = fmt::format("rank {}", rank);
      member.segment = segments()[rank];
      member.route = {config.shm.get(), rank};
      config.members.push_back(std::move(member));
      clear(*segments()[rank]);
    }
    return config;
  }

  // As it was made, but for blocks and outboxes, which nobody interprets.
  static void clear(const Segment& segment) {
    const SegmentHeader& header = segment.header();
    const auto [magic, nonce, owner] = std::tuple(header.magic, header.nonce, header.owner);
    auto* const base = reinterpret_cast<std::byte*>(&segment.header());
    std::memset(base, 0, segment.layout().lanes);
    for (uint32_t peer = 0; peer < kRanks; ++peer)
      if (peer != owner) std::memset(segment.ring(peer), 0, kMost);
    segment.header().magic = magic;
    segment.header().nonce = nonce;
    segment.header().ranks = kRanks;
    segment.header().owner = owner;
  }

  // An operation ends with its group, and a group with a reason that callers know.
  void expect_sense() {
    const Status& fault = group_.fault();
    if (fault.ok()) return;
    if (group_.busy() || fault.code() <= FLOE_IN_PROGRESS || fault.code() > FLOE_ERR_INTERNAL)
      __builtin_trap();
  }

  uint64_t number() {
    return input_.ConsumeBool() ? input_.ConsumeIntegralInRange<uint64_t>(0, 64)
                                : input_.ConsumeIntegral<uint64_t>();
  }
  // Like one that this rank would wait for, or any.
  uint64_t flag() {
    return input_.ConsumeBool() ? Flag::word(input_.ConsumeIntegralInRange<uint64_t>(0, 64), hash_)
                                : number();
  }

  void write() {
    const uint32_t peer = input_.ConsumeIntegralInRange<uint32_t>(1, kRanks - 1);
    Segment& segment = *segments()[peer];
    SegmentHeader& header = segment.header();
    switch (input_.ConsumeIntegralInRange<int>(0, 8)) {
      case 0: header.put = flag(); break;
      case 1: header.done = flag(); break;
      case 2: header.entered = flag(); break;
      case 3:
        header.stream[input_.ConsumeIntegralInRange<size_t>(0, header.stream.size() - 1)] = flag();
        break;
      case 4: {
        const uint64_t word = flag();
        std::byte* const slots[] = {segment.small_slot(number()),
                                    segment.narrow_slot(number(), SegmentLayout::kLineSlot),
                                    segment.narrow_slot(number(), SegmentLayout::kHalfLineSlot)};
        std::memcpy(slots[input_.ConsumeIntegralInRange<size_t>(0, 2)], &word, sizeof word);
        break;
      }
      case 5: {
        header.fault.culprit = input_.ConsumeIntegral<uint32_t>();
        header.fault.code = input_.ConsumeBool()
                                ? input_.ConsumeIntegralInRange<int>(-1, FLOE_ERR_INTERNAL + 1)
                                : input_.ConsumeIntegral<int>();
        const auto text = input_.ConsumeBytes<char>(header.fault.text.size());
        std::copy(text.begin(), text.end(), header.fault.text.begin());
        break;
      }
      case 6:
        header.state = static_cast<uint32_t>(number());
        segments()[0]->header().alarm = input_.ConsumeIntegral<uint32_t>();
        break;
      case 7: packet(segment); break;
      default: segment.cursors(0).head = number(); segment.cursors(0).tail = number();
    }
  }

  // Records at the ring's beginning, or what looks like one.
  void packet(const Segment& segment) {
    auto bytes = input_.ConsumeBytes<uint8_t>(input_.ConsumeIntegralInRange<size_t>(0, kMost / 4));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(segment.ring(0)));
    segment.cursors(0).head = input_.ConsumeIntegralInRange<uint64_t>(0, kMost / 64) * 64;
  }

  std::byte* buffer(size_t bytes) {
    buffers_.push_back(std::make_unique<std::byte[]>(bytes));  // of exactly that size: ASan guards its ends
    return buffers_.back().get();
  }

  Descriptor all_reduce_of(uint64_t count) {
    const Descriptor descriptor = floe::collective(Kind::kAllReduce, count, FLOE_INT32, FLOE_SUM);
    hash_ = hash(descriptor);
    return descriptor;
  }

  void direct() {
    const Descriptor descriptor = all_reduce_of(input_.ConsumeIntegralInRange<uint64_t>(0, kMost));
    std::byte* const data = buffer(descriptor.count * 4);
    const Pattern pattern = input_.ConsumeBool() ? pattern::kAllReduce : pattern::kReduce;
    const DirectArgs args{pattern, data, data, descriptor.count, FLOE_INT32, FLOE_SUM, 0, hash_};
    start(std::make_shared<DirectCollective>(descriptor, group_.direct()->make(args)));
  }
  void scheduled() {
    const Descriptor descriptor = all_reduce_of(input_.ConsumeIntegralInRange<uint64_t>(0, kMost));
    std::byte* const data = buffer(descriptor.count * 4);
    start(std::make_shared<ScheduledCollective>(
        descriptor, all_reduce(kRanks, 0, {descriptor.count, 4}, true), data, data, kRanks, group_.direct()));
  }
  void message(Kind kind) {
    Transfer transfer;
    transfer.bytes = input_.ConsumeIntegralInRange<uint64_t>(0, kMost);
    transfer.data = buffer(transfer.bytes);
    transfer.peer = input_.ConsumeIntegralInRange<uint32_t>(1, kRanks - 1);
    Descriptor descriptor;
    descriptor.kind = static_cast<uint8_t>(kind);
    descriptor.type = FLOE_UINT8;
    descriptor.count = transfer.bytes;
    transfer.descriptor = descriptor;
    start(std::make_shared<MessageOperation>(descriptor, std::move(transfer)));
  }
  template <class Started>
  void start(std::shared_ptr<Started> operation) {
    if (group_.start(operation).ok()) operations_.push_back(std::move(operation));
  }

  FuzzedDataProvider& input_;
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::vector<std::shared_ptr<Operation>> operations_;
  uint32_t hash_ = 0;
  Group group_;
};

}  // namespace
}  // namespace floe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  floe::Fuzzed(input).run();
  return 0;
}
