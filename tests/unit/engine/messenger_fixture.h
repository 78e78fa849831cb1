// Two messengers joined by a transport of the tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/messenger.h"

namespace floe {

inline constexpr size_t kMaxPayload = 1000, kWindow = 4 << 20;

// Keeps what is sent until it is handed over; takes at most `room` packets.
struct Wire final : Transport {
  std::deque<std::pair<PacketHeader, std::vector<std::byte>>> packets;
  size_t room = 1000, most = kMaxPayload;
  bool link = false;  // is one where packets queue
  size_t parted = 0;  // packets that may come in parts
  size_t past = 0;    // packets that their receiver keeps past the cache
  // Whether peers may read memory, how many of the next reads fail, and how many bytes were read.
  bool gives = false;
  size_t fails = 0, fetched = 0;
  // The longest packet that is answered where it came, 0: none is; every how many looks there is no room for
  // an answer; and how many were. `place`: of the packet that is being handed over to whom this is from.
  size_t most_to_answer = 0, refuses = 0, looks = 0, answers = 0;
  std::span<std::byte> place;

  std::string_view name() const override { return "wire"; }
  size_t max_payload() const override { return most; }
  bool queues() const override { return link; }
  bool try_send(PeerId, const PacketHeader& header, std::span<const std::byte> payload) override {
    if (packets.size() >= room) return false;
    past += header.kind == PacketKind::kDataPast ? 1 : 0;
    packets.emplace_back(header, std::vector<std::byte>(payload.begin(), payload.end()));
    return true;
  }
  bool try_send_in_parts(PeerId peer, const PacketHeader& header,
                         std::span<const std::byte> payload) override {
    ++parted;
    return try_send(peer, header, payload);
  }
  size_t most_answered() const override { return most_to_answer; }
  std::span<std::byte> answer_place(PeerId) override {
    return refuses != 0 && ++looks % refuses == 0 ? std::span<std::byte>() : place;
  }
  void answer(PeerId peer, const PacketHeader& header, size_t payload) override {
    ++answers;
    EXPECT_TRUE(try_send(peer, header, place.first(payload)));
    place = {};
  }
  bool gives_memory() const override { return gives; }
  Status fetch(PeerId, uint64_t address, std::span<std::byte> to) override {
    if (fails != 0) {
      --fails;
      return error(FLOE_ERR_SYSTEM, "process_vm_readv: not permitted");
    }
    std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    fetched += to.size();
    return {};
  }
  int progress(PacketSink&) override { return 0; }
};

struct Done final : TransferOwner {
  int count = 0;
  void on_transfer(Transfer&) override { ++count; }
};

class MessengerTest : public testing::Test {
 protected:
  // Moves packets both ways until nothing moves.
  void settle() {
    bool moved = true;
    while (moved) {
      moved = a.pump() + b.pump() != 0;
      moved |= hand_over(from_a, b) | hand_over(from_b, a);
    }
  }
  bool hand_over(Wire& wire, Messenger& to) {
    Wire& back = &wire == &from_a ? from_b : from_a;
    const bool any = !wire.packets.empty();
    while (!wire.packets.empty()) {
      const auto [header, payload] = std::move(wire.packets.front());
      wire.packets.pop_front();
      std::vector<std::byte> buffer = payload;
      buffer.resize(std::max(buffer.size(), back.most_to_answer));
      if (header.kind == PacketKind::kDataSwap) back.place = buffer;
      to.on_packet(header, std::span(buffer).first(payload.size()));
      back.place = {};
    }
    return any;
  }
  Transfer send_to(uint32_t peer, std::vector<std::byte>& data, uint64_t tag) {
    Transfer t;
    t.data = data.data();
    t.bytes = data.size();
    t.peer = peer;
    t.tag = tag;
    t.owner = &sent;
    return t;
  }
  Transfer receive_from(uint32_t peer, std::vector<std::byte>& data, uint64_t tag) {
    Transfer t = send_to(peer, data, tag);
    t.owner = &received;
    return t;
  }
  static std::vector<std::byte> pattern(size_t bytes) {
    std::vector<std::byte> data(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 + i / 256);
    return data;
  }

  Wire from_a, from_b;
  Messenger a{1, 0, {{}, {&from_a, 0}}};
  Messenger b{1, 1, {{&from_b, 0}, {}}};
  Done sent, received;
};

}  // namespace floe
