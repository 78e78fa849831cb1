// Matching of messages to receives by (lane, source, tag): first posted, first arrived. A pure data
// structure; what a match means is the messenger's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/packet.h"

namespace floe {

struct Transfer;

// A message that came before its receive was posted.
struct Unexpected {
  PacketHeader header;             // kEager or kAnnounce
  std::vector<std::byte> payload;  // of kEager
  uint64_t arrival = 0;
};

class Matcher {
 public:
  struct Key {
    uint8_t lane;
    uint32_t source;
    uint64_t tag;
    bool operator==(const Key&) const = default;
  };

  // The oldest posted receive that takes this message, removed from the queue; null if there is none.
  Transfer* match(const Key& message);
  // Keeps a message that nobody waits for yet.
  void keep(const Key& key, Unexpected message);
  // The oldest kept message that `receive` takes, removed; otherwise the receive is posted.
  std::optional<Unexpected> post(Transfer& receive);
  void clear();

 private:
  struct Hash {
    size_t operator()(const Key& key) const;
  };
  struct Posted {
    Transfer* receive;
    uint64_t order;
  };

  std::optional<Unexpected> take(const Key& key);

  std::unordered_map<Key, std::deque<Posted>, Hash> posted_;
  std::list<Posted> posted_any_;  // receives from several sources: rare, so a list
  std::unordered_map<Key, std::deque<Unexpected>, Hash> unexpected_;
  uint64_t order_ = 0;
};

}  // namespace floe
