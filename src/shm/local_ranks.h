// The ranks of a communicator that is all on one host, and what can be done of a collective in one go.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shm/segment.h"

namespace floe {

class LocalRanks {
 public:
  LocalRanks(std::vector<std::shared_ptr<Segment>> segments, uint32_t self)
      : segments_(std::move(segments)), size_(static_cast<uint32_t>(segments_.size())), self_(self) {}

  uint32_t size() const { return size_; }
  uint32_t self() const { return self_; }
  Segment& own() const { return *segments_[self_]; }
  Segment& operator[](uint32_t rank) const { return *segments_[rank]; }

 private:
  std::vector<std::shared_ptr<Segment>> segments_;
  uint32_t size_;
  uint32_t self_;
};

enum class Poll {
  kPending,  // nothing could be done
  kMoved,    // something was done
  kDone,
  kMismatch,  // a peer was called with something else; mismatch_with() says which
  kInvalid,   // that peer has published what makes no sense
};

}  // namespace floe
