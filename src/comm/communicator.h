// A communicator: membership, and the public operations as engine operations. Arguments have been checked
// by api/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/types.h"
#include "coll/algorithms.h"
#include "comm/agreement.h"
#include "comm/op_table.h"
#include "comm/wire_up.h"
#include "engine/engine.h"

namespace floe {

class Communicator {
 public:
  // Collective. `store` may be null if size is 1.
  static Result<std::unique_ptr<Communicator>> create(const std::shared_ptr<Engine>& engine,
                                                      const WireUpConfig& config, Store* store);
  // Leaves: see floe_comm_destroy.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  uint32_t rank() const { return group_.rank(); }
  uint32_t size() const { return group_.size(); }
  uint32_t local_rank() const;
  uint32_t local_size() const;
  bool direct() const { return group_.direct() != nullptr; }
  uint64_t timeout_ms() const;
  void set_timeout(uint64_t ms);
  // What float32 sums of all_reduce travel as between hosts: FLOE_FLOAT32 or FLOE_BFLOAT16.
  floe_type_t wire_type() const { return wire_type_.load(std::memory_order_relaxed); }
  // Relaxed: a collective and this are not called at the same time, or either may come first.
  void set_wire_type(floe_type_t type) { wire_type_.store(type, std::memory_order_relaxed); }
  OpTable& ops() { return ops_; }

  struct Statistics {
    floe_status_t status = FLOE_OK;  // why it has failed
    uint64_t collectives = 0, collective_bytes = 0;
    uint64_t sends = 0, sent_bytes = 0;
    uint64_t receives = 0;
    uint64_t refused = 0;  // since it has failed
    uint64_t completed = 0, failed = 0;
  };
  Statistics statistics() const;

  // From any thread: everything under way ends, here and on the other ranks.
  void abort();
  // The same, because a call could not allocate and was perhaps half started.
  void out_of_memory();
  // OK, or why every operation fails from now on, as far as this rank has heard.
  Status fault();

  // Collective: a communicator of the ranks with this colour, by key and then by rank; null for
  // FLOE_UNDEFINED. Outlives this one.
  Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key);
  // Collective among the ranks that live: a communicator of theirs. This one is aborted if it has not failed.
  Result<std::unique_ptr<Communicator>> shrink();
  // Collective: every rank's value, by rank; for floe's own use. Ends by the deadline, with a fault.
  Result<std::vector<std::string>> everyones(const std::string& mine, Deadline deadline);

  // Each starts the operation; an error is the communicator's fault. In-place forms have send == recv but
  // where noted. Null if it is complete already, which happens only where `wait` says that the caller would
  // wait for it at once.
  using Started = Result<std::shared_ptr<Operation>>;
  // For a caller that would wait: the last collective of that kind but all_reduce once more, with other
  // buffers, which have been checked. What else it was called with is known to be right: with small ones the
  // checks are half of what a call costs. False if the last two had other shapes, or were not small ones on
  // shared memory, or it can't run at once: start it as below. Its peers were late if there is an operation.
  struct Shape {
    Kind kind{};
    uint64_t count = 0;
    int type = 0;
    int op = 0;
    uint32_t root = 0;
    bool operator==(const Shape&) const = default;
  };
  bool repeat(const Shape& shape, const void* send, void* recv, std::shared_ptr<Operation>* late);

  Started all_reduce(const void* send, void* recv, uint64_t count, floe_type_t type, Operator op, bool wait);
  // For a caller that would wait: the last all_reduce once more, of other buffers, which have been checked.
  // What else it was called with is known to be right: with small ones the checks are half of what a call
  // costs. False if that was another one, or not a small one on shared memory: call all_reduce(). Its peers
  // were late if there is an operation.
  bool repeat_all_reduce(const void* send, void* recv, uint64_t count, floe_type_t type, floe_op_t op,
                         std::shared_ptr<Operation>* late);
  Started reduce(const void* send, void* recv, uint64_t count, floe_type_t type, Operator op, uint32_t root,
                 bool wait);
  Started broadcast(void* buffer, uint64_t count, floe_type_t type, uint32_t root, bool wait);
  // In place: send is this rank's block of recv.
  Started all_gather(const void* send, void* recv, uint64_t count, floe_type_t type, bool wait);
  // In place: recv is this rank's block of send.
  Started reduce_scatter(const void* send, void* recv, uint64_t count, floe_type_t type, Operator op,
                         bool wait);
  Started barrier(bool wait);

  // blocks.cpp. A rank that is not the root has no blocks, and its other buffer is not used.
  Started all_gather_v(const void* send, void* recv, const Blocks& to, floe_type_t type);
  Started reduce_scatter_v(const void* send, const Blocks& from, void* recv, floe_type_t type, Operator op);
  Started all_to_all(const void* send, void* recv, uint64_t count, floe_type_t type, bool in_place,
                     bool wait);
  Started all_to_all_v(const void* send, const Blocks& from, void* recv, const Blocks& to, floe_type_t type,
                       bool in_place);
  Started gather(const void* send, void* recv, uint64_t count, floe_type_t type, uint32_t root, bool wait);
  Started gather_v(const void* send, uint64_t count, void* recv, const Blocks& to, floe_type_t type,
                   uint32_t root);
  Started scatter(const void* send, void* recv, uint64_t count, floe_type_t type, uint32_t root, bool wait);
  Started scatter_v(const void* send, const Blocks& from, void* recv, uint64_t count, floe_type_t type,
                    uint32_t root);

  Started send(const void* buffer, uint64_t bytes, uint32_t dest, uint64_t tag, bool wait);
  // For a caller that waits for both: what is not complete already is in *sending and *receiving.
  Status send_receive(const void* send, uint64_t sent_bytes, uint32_t dest, uint64_t send_tag, void* recv,
                      uint64_t received_bytes, std::span<const uint32_t> sources, uint64_t recv_tag,
                      std::shared_ptr<Operation>* sending, std::shared_ptr<Operation>* receiving);
  // From the rank in `sources`, or any of them.
  Started receive(void* buffer, uint64_t bytes, std::span<const uint32_t> sources, uint64_t tag, bool wait);

 private:
  Communicator(std::shared_ptr<Engine> engine, GroupConfig group)
      : engine_(std::move(engine)), group_(std::move(group)) {}

  static Result<std::unique_ptr<Communicator>> connect(const std::shared_ptr<Engine>& engine,
                                                       const WireUpConfig& config, Exchange* exchange);
  Status meet(Deadline deadline);  // all ranks of the new communicator
  // shrink_hosts.cpp
  bool spans_hosts() const;  // or ranks without shared memory
  Agreement& agreement();
  Result<std::unique_ptr<Communicator>> shrink_across_hosts(Deadline deadline);
  void say_farewell();  // to ranks that shrink; lock held
  Status gather_blocks(const void* mine, void* all, uint64_t bytes, Deadline deadline);
  void hand_down_to(Communicator& child) const;  // what callers have set
  // By rank: whether data goes there by fabric, as it comes back.
  std::vector<bool> apart() const;
  Started start(std::shared_ptr<Collective> collective);
  // Lock held.
  Status start_send(const Message& send, bool wait, std::shared_ptr<Operation>* started);
  Status start_receive(const Message& receive, std::span<const uint32_t> sources, bool wait,
                       std::shared_ptr<Operation>* started);
  // Whether a reduction may run on shared memory, whose slots have no room for factors.
  bool on_memory(Operator op) const { return direct() && op.op != kPremulSum; }
  Started on_memory(const Descriptor& descriptor, Pattern pattern, const void* send, void* recv, bool wait);
  void prepare(const Descriptor& descriptor, const DirectArgs& args);  // for repeat(); lock held
  // Lock held. Returns `started`; or of one that has.
  Status count(const Descriptor& descriptor, Status started);
  void count(const Descriptor& descriptor);
  Started scheduled(const Descriptor& descriptor, Schedule schedule, const void* send, void* recv);
  // A reduction: ranks exchange their factors if it is a premul-sum.
  Started scheduled(const Descriptor& descriptor, Operator op, Schedule schedule, const void* send,
                    void* recv);

  std::shared_ptr<Engine> engine_;
  Group group_;
  bool complete_ = false;  // all ranks have been there, so that some may have sent something
  OpTable ops_;
  std::atomic<floe_type_t> wire_type_{FLOE_FLOAT32};
  // Under the engine's lock:
  Statistics statistics_;
  struct LastReduce {  // all_reduce that repeat_all_reduce() may repeat
    Descriptor descriptor;
    uint32_t hash;
    SmallReduce run;
  };
  std::optional<LastReduce> last_reduce_;
  struct Last {  // another small collective of its kind
    struct Ready {
      Descriptor descriptor;
      uint32_t hash;
      uint64_t bytes;
      SmallRepeat run;
    };
    Shape shape;
    std::optional<Ready> ready;
  };
  std::array<Last, kKinds> last_{};
  std::array<std::atomic<bool>, kKinds> ready_{};  // last_[kind].ready: a hint for who hasn't the lock
  HostVote own_vote_{};                            // of a rank that is alone on its host
  std::unique_ptr<Agreement> agreement_;
};

}  // namespace floe
