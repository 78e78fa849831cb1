// A copy of a ring's latest record beside the cursor that tells of it, if it is small.
//
// Who waits for a message looks at the cursor, and takes its line from the writer each time. With the record
// on that line one line crosses from core to core for each message, not the record's, too. The ring has it as
// well: for a reader that comes to several at once, or while the next one is written here.
//
// A seqlock (Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012) whose
// sequence number is the cursor. It is a multiple of 64, as records begin there, and has in the bits below 1
// + the bytes of the payload that is here, or 0: none.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/packet.h"

namespace floe {

class LatestRecord {
 public:
  static constexpr size_t kMostPayload = 56;
  // Of a header whose other fields are 0, as most are.
  static constexpr size_t kHeaderBytes = offsetof(PacketHeader, id);

  // What a cursor says.
  static uint64_t position(uint64_t cursor) { return cursor & ~kCopied; }
  static bool has_copy(uint64_t cursor) { return (cursor & kCopied) != 0; }
  static size_t payload_bytes(uint64_t cursor) { return (cursor & kCopied) - 1; }  // if it has one

  // Puts that here, of a cursor that stands before it and says `said`: its line is the reader's by now, and
  // to load it first takes as long as another crossing. Returns what is to be added to the cursor that tells
  // of it.
  uint64_t write(std::atomic<uint64_t>& cursor, uint64_t said, const PacketHeader& header,
                 std::span<const std::byte> payload) {
    if (has_copy(said)) cursor.store(position(said), std::memory_order_relaxed);
    Words words{};
    std::memcpy(words.data(), &header, kHeaderBytes);
    if (!payload.empty()) std::memcpy(words.data() + kHeaderWords, payload.data(), payload.size());
    // Release: pairs with the acquire in read(). Who reads any of them then sees that the cursor has changed.
    for (size_t i = 0; i < words_of(payload.size()); ++i)
      words_[i].store(words[i], std::memory_order_release);
    return payload.size() + 1;
  }

  struct Copy {
    PacketHeader header;
    std::array<std::byte, kMostPayload> payload;
  };
  // What `seen` tells of, a cursor that has a copy, of at most kMostPayload bytes. False: the writer is past
  // it.
  bool read(const std::atomic<uint64_t>& cursor, uint64_t seen, Copy* copy) const {
    const size_t payload = payload_bytes(seen);
    Words words;
    // Acquire: pairs with the release in write().
    for (size_t i = 0; i < words_of(payload); ++i) words[i] = words_[i].load(std::memory_order_acquire);
    if (cursor.load(std::memory_order_relaxed) != seen) return false;
    copy->header = {};
    std::memcpy(static_cast<void*>(&copy->header), words.data(), kHeaderBytes);
    std::memcpy(copy->payload.data(), words.data() + kHeaderWords, payload);
    return true;
  }

 private:
  static constexpr uint64_t kCopied = 63;
  static constexpr size_t kWord = sizeof(uint64_t), kHeaderWords = kHeaderBytes / kWord;
  static_assert(kHeaderBytes % kWord == 0 && kMostPayload % kWord == 0 && kMostPayload < kCopied);
  using Words = std::array<uint64_t, kHeaderWords + kMostPayload / kWord>;
  static size_t words_of(size_t payload) { return kHeaderWords + (payload + kWord - 1) / kWord; }

  std::array<std::atomic<uint64_t>, std::tuple_size_v<Words>> words_;
};

}  // namespace floe
