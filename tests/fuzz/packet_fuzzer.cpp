// Packets of a peer, whatever they say, at a communicator with receives, sends and a collective under way.
#include <fuzzer/FuzzedDataProvider.h>

#include <memory>

#include "coll/algorithms.h"
#include "engine/group.h"

namespace floe {
namespace {

constexpr uint64_t kKey = 7;
constexpr size_t kMost = 4096;

struct Nowhere final : Transport {
  std::string_view name() const override { return "nowhere"; }
  size_t max_payload() const override { return 256; }
  bool try_send(PeerId, const PacketHeader&, std::span<const std::byte>) override { return true; }
  size_t most_answered() const override { return sizeof(place_); }
  std::span<std::byte> answer_place(PeerId) override { return place_; }
  int progress(PacketSink&) override { return 0; }

 private:
  std::byte place_[512];
};

// Like what floe sends in most fields, so that the checks behind the first one are reached.
PacketHeader some_header(FuzzedDataProvider& input) {
  PacketHeader header;
  header.kind = static_cast<PacketKind>(input.ConsumeIntegralInRange<uint8_t>(0, 15));
  header.version = input.ConsumeIntegralInRange<uint8_t>(1, 2);
  header.source = input.ConsumeIntegralInRange<uint32_t>(0, 3);
  header.comm = input.ConsumeBool() ? kKey : input.ConsumeIntegral<uint64_t>();
  const auto number = [&] {
    return input.ConsumeBool() ? input.ConsumeIntegralInRange<uint64_t>(0, 2 * kMost)
                               : input.ConsumeIntegral<uint64_t>();
  };
  header.tag = input.ConsumeBool() ? uint64_t{1} << 16 : number();
  header.bytes = number();
  header.id = number();
  header.offset = number();
  header.descriptor.kind = input.ConsumeIntegral<uint8_t>();
  header.descriptor.lane = input.ConsumeIntegralInRange<uint8_t>(0, 2);
  header.descriptor.type = input.ConsumeIntegral<uint8_t>();
  header.descriptor.op = input.ConsumeIntegral<uint8_t>();
  header.descriptor.root = input.ConsumeIntegral<uint32_t>();
  header.descriptor.count = number();
  return header;
}

class Fuzzed {
 public:
  explicit Fuzzed(FuzzedDataProvider& input) : input_(input), group_(config()) {}

  void run() {
    while (input_.remaining_bytes() != 0) {
      switch (input_.ConsumeIntegralInRange<int>(0, 5)) {
        case 0: message(Kind::kRecv); break;
        case 1: message(Kind::kSend); break;
        case 2: collective(); break;
        case 3: group_.progress(); break;
        default: packet();
      }
    }
    group_.check();
    group_.leave();
  }

 private:
  GroupConfig config() {
    GroupConfig config;
    config.name = "fuzz";
    config.key = kKey;
    config.timeout_ms = 1000;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      Member member;
      member.who = fmt::format("rank {}", rank);
      if (rank != 0) member.route = {&nowhere_, rank};
      config.members.push_back(std::move(member));
    }
    return config;
  }

  std::byte* buffer(size_t bytes) {
    buffers_.push_back(std::make_unique<std::byte[]>(bytes));  // of exactly that size: ASan guards its ends
    return buffers_.back().get();
  }

  void message(Kind kind) {
    Transfer transfer;
    transfer.bytes = input_.ConsumeIntegralInRange<uint64_t>(0, kMost);
    transfer.data = buffer(transfer.bytes);
    transfer.tag = input_.ConsumeBool() ? uint64_t{1} << 16 : input_.ConsumeIntegralInRange<uint64_t>(0, 3);
    transfer.peer = input_.ConsumeIntegralInRange<uint32_t>(1, 2);
    if (kind == Kind::kRecv && input_.ConsumeBool()) transfer.sources = {1, 2};
    Descriptor descriptor;
    descriptor.kind = static_cast<uint8_t>(kind);
    descriptor.type = FLOE_UINT8;
    descriptor.count = transfer.bytes;
    transfer.descriptor = descriptor;
    (void)group_.start(std::make_shared<MessageOperation>(descriptor, std::move(transfer)));
  }

  void collective() {
    Descriptor descriptor;
    descriptor.kind = static_cast<uint8_t>(Kind::kAllReduce);
    descriptor.type = FLOE_INT32;
    descriptor.lane = 1;
    descriptor.count = input_.ConsumeIntegralInRange<uint64_t>(0, kMost / 4);
    const size_t bytes = descriptor.count * 4;
    std::byte* const data = buffer(bytes);
    (void)group_.start(std::make_shared<ScheduledCollective>(
        descriptor, all_reduce(3, 0, {descriptor.count, 4}, true), data, data, 3, nullptr));
  }

  void packet() {
    const PacketHeader header = some_header(input_);
    const auto text = input_.ConsumeRandomLengthString(kMost);
    auto payload = std::make_unique<std::byte[]>(text.size());
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), payload.get());
    group_.on_packet(header, {payload.get(), text.size()});
  }

  FuzzedDataProvider& input_;
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  Nowhere nowhere_;
  Group group_;
};

}  // namespace
}  // namespace floe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  floe::Fuzzed(input).run();
  return 0;
}
