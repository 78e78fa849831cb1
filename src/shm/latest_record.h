// A copy of a ring's latest record beside the cursor that tells of it, if it is a whole message of a
// caller's.
//
// Who waits for a message looks at the cursor, and takes its line from the writer each time. With the header
// on that line, and up to 32 bytes of payload or where it is, the record's first line need not cross from
// core to core as well. The ring has it, too: for a reader that comes to several at once, or while the next
// one is written here.
//
// A seqlock (Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012) whose
// sequence number is the cursor. It is a multiple of 64, as records begin there, and has in the bits below
// what is here: 0 for nothing, 1 + the bytes of the payload, or kElsewhere.
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
  // What fits there.
  static constexpr size_t kMostPayload = 32;
  // Of a header whose `bytes` are the payload's, and whose other fields are 0.
  static constexpr size_t kHeaderBytes = offsetof(PacketHeader, bytes);
  // A longer payload is not here, but the record's word, which tells where it is.
  static constexpr uint64_t kElsewhere = kMostPayload + 2;

  // What a cursor says.
  static uint64_t position(uint64_t cursor) { return cursor & ~kCopied; }
  static uint64_t copied(uint64_t cursor) { return cursor & kCopied; }

  // Puts that here, of a cursor that stands before it and says `said`: its line is the reader's by now, and
  // to load it first takes as long as another crossing. Returns what is to be added to the cursor that tells
  // of it.
  uint64_t write(std::atomic<uint64_t>& cursor, uint64_t said, const PacketHeader& header, uint64_t word,
                 std::span<const std::byte> payload) {
    if (copied(said) != 0) cursor.store(position(said), std::memory_order_relaxed);
    Words words{};
    std::memcpy(words.data(), &header, kHeaderBytes);
    const bool here = payload.size() <= kMostPayload;
    if (!here)
      words[kHeaderWords] = word;
    else if (!payload.empty())
      std::memcpy(words.data() + kHeaderWords, payload.data(), payload.size());
    // Release: pairs with the acquire in read(). Who reads any of them then sees that the cursor has changed.
    for (size_t i = 0; i < words_of(here); ++i) words_[i].store(words[i], std::memory_order_release);
    return here ? payload.size() + 1 : kElsewhere;
  }

  struct Copy {
    PacketHeader header;  // but for `bytes`
    uint64_t word;        // if the payload is elsewhere
    std::array<uint64_t, kMostPayload / sizeof(uint64_t)> payload;
  };
  // What `seen` tells of, a cursor that has a copy. False: the writer is past it.
  bool read(const std::atomic<uint64_t>& cursor, uint64_t seen, Copy* copy) const {
    // Acquire: pairs with the release in write().
    const auto word = [this](size_t i) { return words_[i].load(std::memory_order_acquire); };
    // Field by field: a load of more than one store has put there waits until these have left the core.
    const uint64_t first = word(0);
    copy->header.comm = word(1);
    copy->header.tag = word(2);
    copy->word = word(kHeaderWords);
    copy->payload[0] = copy->word;
    for (size_t i = kHeaderWords + 1; i < words_of(copied(seen) != kElsewhere); ++i)
      copy->payload[i - kHeaderWords] = word(i);
    if (cursor.load(std::memory_order_relaxed) != seen) return false;
    copy->header.kind = static_cast<PacketKind>(first);
    copy->header.version = static_cast<uint8_t>(first >> 8);
    copy->header.fetches = static_cast<uint16_t>(first >> 16);
    copy->header.source = static_cast<uint32_t>(first >> 32);
    return true;
  }

 private:
  static constexpr uint64_t kCopied = 63;
  static constexpr size_t kHeaderWords = kHeaderBytes / sizeof(uint64_t);
  using Words = std::array<uint64_t, (kHeaderBytes + kMostPayload) / sizeof(uint64_t)>;
  static_assert(sizeof(Words) == kHeaderBytes + kMostPayload && kElsewhere <= kCopied);
  static constexpr size_t words_of(bool here) { return here ? std::tuple_size_v<Words> : kHeaderWords + 1; }

  std::array<std::atomic<uint64_t>, std::tuple_size_v<Words>> words_;
};

}  // namespace floe
