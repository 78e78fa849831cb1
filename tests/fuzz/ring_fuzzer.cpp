// A ring in a peer's segment, and messages of a fabric endpoint: any bytes.
#include <fuzzer/FuzzedDataProvider.h>

#include <memory>
#include <vector>

#include "fabric/link.h"
#include "shm/ring.h"

namespace floe {
namespace {

struct Sum final : PacketSink {
  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override {
    total += header.tag;
    for (const std::byte b : payload) total += static_cast<uint64_t>(b);
  }
  void on_peer_lost(PeerId, const Status&) override {}
  uint64_t total = 0;
};

}  // namespace
}  // namespace floe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace floe;
  constexpr size_t kCapacity = 1024;
  FuzzedDataProvider input(data, size);
  alignas(64) static std::byte memory[kCapacity];
  RingCursors own{}, peers{};
  peers.trial.way = input.ConsumeIntegralInRange<uint32_t>(0, 4);
  static const SegmentLayout layout(2);
  static std::vector<std::byte> buffers(SwapBuffers::kAll * layout.swap_distance());
  SwapBuffers swaps(buffers.data(), buffers.data() + buffers.size() / 2, true, layout);
  RingReader reader(memory, kCapacity, own, peers, swaps);
  Sum sink;
  for (int turn = 0; turn < 4 && input.remaining_bytes() != 0; ++turn) {
    const auto bytes = input.ConsumeBytes<uint8_t>(input.ConsumeIntegralInRange<size_t>(0, kCapacity));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(memory));
    peers.head = input.ConsumeBool() ? peers.head + input.ConsumeIntegralInRange<uint64_t>(0, kCapacity + 64)
                                     : input.ConsumeIntegral<uint64_t>();
    if (input.ConsumeBool()) {
      const auto payload = input.ConsumeBytes<std::byte>(
          input.ConsumeIntegralInRange<size_t>(0, LatestRecord::kMostPayload + 1));
      PacketHeader header;
      header.tag = input.ConsumeIntegral<uint64_t>();
      const auto word = input.ConsumeIntegral<uint64_t>();
      peers.head += peers.latest.write(peers.head, peers.head, header, word, payload);
    }
    if (reader.drain(sink, 16) < 0) break;
  }
  const auto message = input.ConsumeRemainingBytes<std::byte>();
  const auto parsed = fabric::parse_message(message, 1);
  if (parsed.header.has_value() == !parsed.problem.empty()) __builtin_trap();
  static volatile uint64_t keep;
  keep = sink.total;
  (void)keep;
  return 0;
}
