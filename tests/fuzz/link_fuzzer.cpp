// What one endpoint believes of another's messages: any headers, in any order, between packets of its own.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>
#include <deque>
#include <set>
#include <vector>

#include "fabric/link.h"

namespace floe::fabric {
namespace {

constexpr uint64_t kOwn = 1, kPeer = 2;

void require(bool holds) {
  if (!holds) __builtin_trap();
}

class Receiver {
 public:
  explicit Receiver(uint64_t consumed) { link_.consumed = link_.reported = consumed; }

  void send() {
    if (link_.has_credit()) ++link_.sent;
  }

  // False once the peer is not believed any more.
  bool receive(std::span<const std::byte> message) {
    const auto parsed = parse_message(message, kOwn);
    if (!parsed.header) return true;
    Slot& slot = slots_.emplace_back();
    numbers_.push_back(parsed.header->sequence);
    const uint64_t expected = link_.consumed;
    const std::string_view problem = link_.take(*parsed.header, slot);
    require(link_.acknowledged <= link_.sent && link_.sent - link_.acknowledged <= kWindow);
    if (!problem.empty()) return false;
    if (parsed.header->kind == LinkKind::kPacket) {
      require(parsed.header->sequence - expected < kWindow);
      held_.insert(&slot);
    }
    while (Slot* const next = link_.next()) {
      require(held_.erase(next) == 1);  // each once
      require(number_of(*next) == link_.consumed);
      ++link_.consumed;
    }
    require(held_.size() < kWindow);
    return true;
  }

  const Link& link() const { return link_; }

 private:
  uint64_t number_of(const Slot& slot) const {
    for (size_t i = 0; i < slots_.size(); ++i)
      if (&slots_[i] == &slot) return numbers_[i];
    __builtin_trap();
  }

  Link link_;
  std::deque<Slot> slots_;
  std::vector<uint64_t> numbers_;  // of slots_
  std::set<Slot*> held_;
};

}  // namespace
}  // namespace floe::fabric

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace floe::fabric;
  FuzzedDataProvider input(data, size);
  Receiver receiver(input.ConsumeIntegral<uint64_t>());
  for (int turn = 0; turn < 200 && input.remaining_bytes() != 0; ++turn) {
    if (input.ConsumeBool()) {
      receiver.send();
      continue;
    }
    LinkHeader header;
    header.kind = input.ConsumeBool() ? LinkKind::kPacket : LinkKind::kCredit;
    header.from = kPeer;
    header.to = kOwn;
    // Near what it should be, or anything.
    header.sequence = input.ConsumeBool()
                          ? receiver.link().consumed + input.ConsumeIntegralInRange<uint64_t>(0, kWindow)
                          : input.ConsumeIntegral<uint64_t>();
    header.consumed = input.ConsumeBool()
                          ? receiver.link().acknowledged + input.ConsumeIntegralInRange<uint64_t>(0, 3)
                          : input.ConsumeIntegral<uint64_t>();
    header.payload = input.ConsumeIntegralInRange<uint32_t>(0, 3);
    std::vector<std::byte> message(sizeof header);
    if (header.kind == LinkKind::kPacket) message.resize(kHeaderBytes + header.payload);
    std::memcpy(message.data(), &header, sizeof header);
    if (!receiver.receive(message)) break;
  }
  return 0;
}
