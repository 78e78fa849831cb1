// Matching of messages to receives by (lane, source, tag): first posted, first arrived. A pure data
// structure; what a match means is the messenger's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "base/packet.h"

namespace floe {

struct Transfer;

// A message that came before its receive was posted.
struct Unexpected {
  PacketHeader header;             // kEager or kAnnounce
  std::vector<std::byte> payload;  // of kEager; all that has come of it
  uint64_t arrival = 0;
};

// A hash table whose chains run through the receives themselves: posting one allocates nothing.
class Matcher {
 public:
  struct Key {
    uint8_t lane;
    uint32_t source;
    uint64_t tag;
    bool operator==(const Key&) const = default;
  };

  Matcher() : buckets_(kFirstBuckets) {}

  // The oldest posted receive that takes this message, removed from the queue; null if there is none.
  Transfer* match(const Key& message);
  bool has(const Key& message);                                 // whether there is one
  bool has_any() const { return posted_ != 0; }                 // whether any receive is posted
  bool empty() const { return entries_ == 0 && posted_ == 0; }  // neither that nor a kept message
  // Keeps a message that nobody waits for yet; where, until it is taken.
  Unexpected* keep(Unexpected message);
  // The oldest kept message that `receive` takes, removed; otherwise the receive is posted.
  std::optional<Unexpected> post(Transfer& receive);
  // `to`, a copy, takes the place of a posted receive; false: it is not posted.
  bool move(const Transfer& posted, Transfer& to);
  void clear();

 private:
  static constexpr size_t kFirstBuckets = 32;  // a power of two, and doubled when they get long

  struct Bucket {
    // Of receives from one source, in the order of posting.
    Transfer* first = nullptr;
    Transfer* last = nullptr;
    std::list<Unexpected> kept;  // in the order of arrival
  };
  using Kept = std::list<Unexpected>::iterator;

  Bucket& bucket(const Key& key);
  static void append(Bucket& to, Transfer& receive);
  static Kept find_kept(Bucket& in, const Key& key);  // or in.kept.end()
  Unexpected take(Bucket& from, Kept message);
  void count_one_more();

  std::vector<Bucket> buckets_;
  size_t entries_ = 0;               // in the buckets
  size_t posted_ = 0;                // receives, in the buckets and below
  std::list<Transfer*> posted_any_;  // receives from several sources: rare, so a list
  uint64_t order_ = 0;
};

}  // namespace floe
