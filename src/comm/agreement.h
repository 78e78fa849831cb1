// Who goes on after floe_comm_shrink when ranks do not all share memory: agreement by single-decree Paxos
// (Lamport 1998, "The Part-Time Parliament"), without a word about how ranks talk. See README.md.
//
// Each rank has a board that it alone writes and sends, whole, to all others whenever it changes; everybody
// acts on the latest boards there are. So lost, late and repeated boards do no harm, and memory is bounded.
//
// The acceptors of Paxos are not ranks but hosts: a host's vote is in memory that all its ranks share, and
// the lowest of them that lives casts it. So a death costs no vote as long as somebody lives on that host.
#pragma once

#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "shm/segment.h"

namespace floe {

// What is decided: the communicator that these ranks have made in this attempt stands.
struct Decision {
  uint64_t attempt = 0;  // the ballot in which it was made; 0: none
  RankSet ranks;
  bool operator==(const Decision&) const = default;
};

// Fixed little-endian wire form. Numbers and bits of peers are only compared.
struct Board {
  enum Presence : uint64_t { kAway, kInside, kGaveUp, kLeft };
  enum Stage : uint64_t { kIdle, kPrepare, kWireUp, kAccept };

  uint64_t calls = 0;  // of floe_comm_shrink by this rank
  uint64_t presence = kAway;
  RankSet gone;    // ranks that this one knows to have died or left, or can't reach: never taken back
  RankSet absent;  // of one that gave up: whom it waited for

  uint64_t promised = 0, accepted = 0;  // ballots; of the rank that votes for its host
  Decision accepted_decision;

  uint64_t ballot = 0;  // of the rank that coordinates
  uint64_t stage = kIdle;
  Decision proposal;

  uint64_t ready = 0;  // the last attempt, once this rank has made its communicator
  Decision decided;
};
static_assert(std::has_unique_object_representations_v<Board>);  // no padding

class Agreement {
 public:
  // `hosts[rank]` is the lowest rank of that rank's host. `vote`, in memory of this host, outlives it.
  Agreement(uint32_t self, std::vector<uint32_t> hosts, HostVote& vote);

  const Board& board() const { return boards_[self_]; }
  uint64_t version() const { return version_; }  // of board(): another one must be sent

  // A call of floe_comm_shrink begins, or ends without success.
  void enter();
  void give_up();
  // This rank will not call any more.
  void leave();

  void hear(uint32_t rank, const Board& board);
  // `certainly`: its process has ended or it has left; otherwise it is only out of reach.
  void set_gone(uint32_t rank, bool certainly);

  // Plays all parts that fall to this rank: voter of its host, coordinator, member.
  void step(Clock::time_point now);

  // The attempt that this rank should make a communicator in, or none: attempt 0.
  Decision to_wire_up() const;
  void begin(uint64_t attempt);
  // It is made, and is kept until there is a decision. That a later attempt has begun does not mean that this
  // one can't be chosen: the votes of a few for it may be found, and adopted, later still.
  void ready(uint64_t attempt);
  // Whether an attempt that this rank is not ready for is in vain.
  bool superseded(uint64_t attempt) const;
  // Whether one of these ranks is gone for another of them.
  bool broken(const RankSet& ranks) const;
  const Decision& decided() const { return board().decided; }

  // The lowest rank that lives, as far as this one knows: it proposes.
  uint32_t coordinator() const;
  // Ranks that have neither come nor gone.
  std::vector<uint32_t> absent() const;
  // Whether the hosts that may still answer are enough to decide.
  bool can_decide() const;
  // A rank whose giving up ends this call, too; its own number if there is none.
  uint32_t who_gave_up() const;
  bool gone(uint32_t rank) const;  // for this rank, or for one that it hears
  uint64_t highest_ballot() const;

 private:
  uint32_t size() const { return static_cast<uint32_t>(hosts_.size()); }
  bool inside(uint32_t rank) const {
    return boards_[rank].presence == Board::kInside && !board().gone.has(rank);
  }
  bool votes_for_host() const;
  bool is_quorum(const std::vector<bool>& hosts) const;
  RankSet survivors() const;
  void vote();
  void coordinate(Clock::time_point now);
  void propose(Clock::time_point now);
  void after_promises();
  void after_wire_up();
  void after_accepts();

  const uint32_t self_;
  const std::vector<uint32_t> hosts_;
  HostVote& vote_;
  std::vector<Board> boards_;
  std::vector<uint64_t> old_calls_;  // of ranks that had given up when this call began
  RankSet certainly_gone_;
  uint64_t tried_ = 0;
  uint64_t version_ = 0;
  Clock::time_point next_ballot_{};
  Millis pause_{0};
  std::minstd_rand random_;
};

}  // namespace floe
