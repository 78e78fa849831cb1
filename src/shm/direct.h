// Collectives straight on shared memory, for communicators whose ranks are all on this host. They are
// state machines: poll() does what can be done now and never blocks. See README.md for the protocols.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "shm/cost_model.h"
#include "shm/local_ranks.h"
#include "shm/mapped_reduce.h"
#include "shm/movement.h"
#include "shm/pair_exchange.h"
#include "shm/pair_slots.h"
#include "shm/return_line.h"
#include "shm/small_exchange.h"
#include "shm/small_reduce.h"
#include "shm/small_repeat.h"
#include "shm/stream.h"

namespace floe {

// A collective under way, by the protocol that fits it.
class DirectOperation {
 public:
  template <class Protocol, class... Args>
  explicit DirectOperation(std::in_place_type_t<Protocol> protocol, Args&&... args)
      : protocol_(protocol, std::forward<Args>(args)...) {}

  // run(protocol): its answer.
  template <class Run>
  auto visit(Run&& run) {
    return std::visit(std::forward<Run>(run), protocol_);
  }
  Poll poll() {
    return visit([](auto& p) { return p.poll(); });
  }
  // Whether the next thing needed is local rank `peer`'s doing.
  bool waits_for(uint32_t peer) const {
    return std::visit([&](const auto& p) { return p.waits_for(peer); }, protocol_);
  }
  uint32_t mismatch_with() const {
    return std::visit([](const auto& p) { return p.mismatch_with(); }, protocol_);
  }
  // See MappedReduce: nobody else's memory is written to.
  Status fence(uint32_t peer) const {
    const auto* mapped = std::get_if<MappedReduce>(&protocol_);
    return mapped ? mapped->fence(peer) : Status();
  }
  // Whether all its work together is as short as one poll of a longer one.
  bool is_short() const {
    if (const auto* line = std::get_if<ReturnLine>(&protocol_)) return line->chunks() == 1;
    if (const auto* exchange = std::get_if<PairExchange>(&protocol_)) return exchange->chunks() == 1;
    if (const auto* mapped = std::get_if<MappedReduce>(&protocol_)) return mapped->is_short();
    if (const auto* stream = std::get_if<Stream>(&protocol_)) return stream->chunks() == 1;
    return true;
  }

 private:
  std::variant<SmallExchange, Stream, ReturnLine, PairExchange, MappedReduce> protocol_;
};

// The direct collectives of one communicator. Operations are made and finished one after the other, in
// the same order on all ranks.
class DirectPath {
 public:
  // `choices`: the same on all ranks. `arenas` of all ranks, or none. `cache_bytes`: this rank's part of the
  // last-level cache, if that is known.
  DirectPath(std::vector<std::shared_ptr<Segment>> segments, uint32_t self, const Choices& choices,
             std::vector<std::shared_ptr<Arena>> arenas = {}, uint64_t cache_bytes = UINT64_MAX);

  uint32_t ranks() const { return ranks_.size(); }
  uint32_t self() const { return ranks_.self(); }
  uint64_t cache_bytes() const { return exchange_.cache_bytes; }

  // Takes its turn: made in the same order on all ranks. args.hash becomes that of all operations so far: a
  // rank whose part was over before others could differ learns of it at the next one that has them meet.
  DirectOperation make(DirectArgs args) {
    args.hash = take_turn(args.hash);
    const Protocol protocol = choices_[args.pattern].at(args.count * type_size(args.type));
    if (protocol != Protocol::kSmall) return make_large(args, protocol);
    return DirectOperation(std::in_place_type<SmallExchange>, ranks_, small_, args);
  }
  // For small all_reduces of the same shape; if these are small.
  std::optional<SmallReduce> small_reduce(uint64_t count, int type, int op) {
    const bool small = choices_[pattern::kAllReduce].at(count * type_size(type)) == Protocol::kSmall;
    if (!small || ranks_.size() > SmallReduce::kMostRanks) return std::nullopt;
    return SmallReduce(ranks_, small_, count, type, op);
  }
  // For further calls of the same shape, of others; if they are small.
  std::optional<SmallRepeat> small_repeat(const DirectArgs& shape) {
    const bool small = choices_[shape.pattern].at(shape.count * type_size(shape.type)) == Protocol::kSmall;
    if (!small || ranks_.size() < 2 || ranks_.size() > SmallRepeat::kMostRanks) return std::nullopt;
    return SmallRepeat(ranks_, small_, shape);
  }

  // For collectives that run as messages: tells the peers that this rank has entered the one numbered
  // `sequence`, and whether all of them have entered the same, so that a rank that called something else
  // never goes unnoticed, whoever sends to whom. Numbers grow.
  void enter(uint64_t sequence, uint32_t hash);
  enum class Entry { kAbsent, kSame, kDifferent };
  Entry entry(uint32_t peer, uint64_t sequence, uint32_t hash) const;

  // Whether `peer` may be writing to this rank's buffers: see MappedReduce.
  bool is_touching(uint32_t peer) const {
    // Acquire: pairs with the release in MappedReduce::reduce_slice(); its writes have ended.
    return ranks_[peer].header().touching.load(std::memory_order_acquire) != 0;
  }

  // The hash of all operations so far and of this one. Part of make().
  uint32_t take_turn(uint32_t hash) {
    hash_ = (hash_ ^ hash) * 0x9e3779b1;  // Fibonacci hashing (Knuth, volume 3, 6.4)
    return hash_ >> 8;
  }

 private:
  DirectOperation make_large(const DirectArgs& args, Protocol protocol);

  LocalRanks ranks_;
  const Choices choices_;
  uint32_t hash_ = 0;  // of all operations so far
  SmallExchange::State small_;
  Stream::State stream_;
  PairSlots slots_;
  bool blocks_last_ = false;  // the last large operation made used them, and not the outbox
  Keeping::State exchange_;
  MappedReduce::State mapped_;
};

}  // namespace floe
