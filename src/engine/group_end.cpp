// How a group ends: by a fault, or because this rank leaves.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.h"
#include "engine/group.h"

namespace floe {
namespace {

// A slice of MappedReduce takes some ten microseconds, if nothing keeps the rank from its CPU. A process that
// takes longer can be fenced off; a thread of this one can't, but it only starves while this one runs.
constexpr Millis kLongestSlice(100), kLongestSliceOfAThread(2000);

}  // namespace

void Group::publish_state(RankState state, uint32_t culprit, const Status& told) {
  const auto& own = config_.members[rank()].segment;
  if (!own) return;
  SegmentHeader& header = own->header();
  header.fault.culprit = culprit;
  header.fault.code = told.code();
  const std::string& text = told.message();
  std::memcpy(header.fault.text.data(), text.data(), std::min(text.size(), header.fault.text.size() - 1));
  // Release: pairs with the acquire in check_members().
  header.state.store(static_cast<uint32_t>(state), std::memory_order_release);
  // Pairs with the fence in read_memory_of(): what callers write to their memory from now on comes after
  // that.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t peer = 0; peer < size(); ++peer)  // release: pairs with check_alarm()
    if (const auto& theirs = config_.members[peer].segment; theirs && peer != rank())
      theirs->header().alarm.store(1, std::memory_order_release);
}

void Group::send_state(RankState state, uint32_t culprit, const Status& told) {
  PacketHeader packet;
  packet.kind = state == RankState::kLeft ? PacketKind::kLeave : PacketKind::kFault;
  packet.tag = culprit;
  packet.id = static_cast<uint64_t>(told.code());
  const auto* bytes = reinterpret_cast<const std::byte*>(told.message().data());
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !over_fabric(config_.members[peer]) ||
        config_.members[peer].state != Member::State::kAlive)
      continue;
    try {
      messenger_.control(peer, packet, {bytes, bytes + told.message().size()});
    } catch (const std::bad_alloc&) {  // it waits for its deadline, but this rank's callers are told
    }
  }
  published_ = true;
  wake_peers();
}

void Group::end_peers_writes() {
  if (!config_.direct) return;
  // Dekker: pairs with MappedReduce::begin_touching(). A peer that does not touch now sees this rank's state
  // before it would.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Deadline deadline = Deadline::in(kLongestSlice), of_a_thread = Deadline::in(kLongestSliceOfAThread);
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const Member& member = config_.members[peer];
    const bool process = member.pidfd.valid();
    const auto writes = [&] {
      if (!config_.direct->is_touching(peer) || member.state == Member::State::kDied) return false;
      pollfd fd{member.pidfd.get(), POLLIN, 0};
      return !process || ::poll(&fd, 1, 0) <= 0;
    };
    bool still = writes();
    for (; still && !(process ? deadline : of_a_thread).passed(); still = writes()) ::sched_yield();
    try {
      if (still) fence(peer);
    } catch (const std::bad_alloc&) {  // of the words of a warning
    }
  }
}

void Group::fence(uint32_t peer) {
  const Member& member = config_.members[peer];
  const bool process = member.pidfd.valid();
  const auto waited = (process ? kLongestSlice : kLongestSliceOfAThread).count();
  const Status fenced = !process               ? error(FLOE_ERR_PEER, "it is a thread of this process")
                        : collectives_.empty() ? Status()
                                               : collectives_.front()->fence(peer);
  if (fenced.ok())
    return log(
        LogLevel::kWarn,
        "'{}': {} has not ended a write to this rank's memory in {} ms, as if it were stopped: what it "
        "writes is cut off, and later all_reduce calls of that buffer copy",
        config_.name, member.who, waited);
  log(LogLevel::kWarn,
      "'{}': {} has not ended a write to this rank's memory in {} ms, as if it were stopped, and is not cut "
      "off: {}; if it goes on, up to {} KiB of the buffer of floe_mem_alloc that was in use may change",
      config_.name, member.who, waited, fenced.message(), MappedReduce::kSliceBytes >> 10);
}

void Group::end_all(const Status& why) {
  messenger_.clear();
  ended_messages_.clear();
  failed_ += collectives_.size() + messages_.size();
  // Nothing here may fail: somebody waits for each of them, if need be without much of a message.
  const auto end = [&](Operation& operation) {
    Status status = why;
    try {
      status = error(why.code(), "{}: {}; {:.2f} s after the call", operation.title(), why.message(),
                     operation.elapsed());
    } catch (const std::bad_alloc&) {
    }
    operation.finish(std::move(status));
  };
  while (!collectives_.empty()) {
    const std::shared_ptr<Collective> collective = std::move(collectives_.front());
    collectives_.pop_front();
    end(*collective);
  }
  while (!messages_.empty()) {
    const std::shared_ptr<MessageOperation> message = std::move(messages_.back());
    messages_.pop_back();
    end(*message);
  }
}

void Group::end(RankState state, uint32_t culprit, const Status& told, const Status& why) {
  publish_state(state, culprit, told);
  end_peers_writes();
  end_all(why);
  send_state(state, culprit, told);
}

void Group::fail(const Status& why, uint32_t culprit) {
  if (!fault_.ok()) return;
  fault_ = error(why.code(), "{} ('{}' is aborted)", why.message(), config_.name);
  end(RankState::kFailed, culprit, why, why);
  log(LogLevel::kInfo, "'{}' fails on rank {}: {}", config_.name, rank(), why.message());
}

void Group::leave() {
  if (!fault_.ok()) return;
  fault_ = error(FLOE_ERR_ABORTED, "'{}' was destroyed", config_.name);
  end(RankState::kLeft, rank(), {}, error(FLOE_ERR_ABORTED, "the communicator was destroyed on this rank"));
}

// The sender's part has ended, or it has heard that this rank's has. All that came before is here, and the
// sender is told so; once this rank has ended too, that was the answer.
void Group::on_end_packet(const PacketHeader& header) {
  Member& sender = config_.members[header.source];
  sender.settled = true;
  if (header.kind == PacketKind::kEndAck) return;
  const bool left = header.kind == PacketKind::kLeave;
  if (left) set_left(sender);
  if (!left && !fault_.ok()) return;
  PacketHeader answer;
  answer.kind = PacketKind::kEndAck;
  messenger_.control(header.source, answer);
}

bool Group::settled() const {
  return std::all_of(config_.members.begin(), config_.members.end(), [&](const Member& member) {
    return member.settled || member.state != Member::State::kAlive || !over_fabric(member) ||
           &member == &config_.members[rank()];
  });
}

}  // namespace floe
