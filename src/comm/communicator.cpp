#include "comm/communicator.h"

#include <algorithm>

#include "base/log.h"
#include "comm/descriptor.h"

namespace floe {
namespace {

Message message(Kind kind, const void* buffer, uint64_t bytes, uint32_t peer, uint64_t tag) {
  return {.data = static_cast<std::byte*>(const_cast<void*>(buffer)),  // only read if it is a send
          .bytes = bytes,
          .peer = peer,
          .tag = tag,
          .descriptor = {.kind = static_cast<uint8_t>(kind), .type = FLOE_UINT8, .count = bytes}};
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::connect(const std::shared_ptr<Engine>& engine,
                                                            const WireUpConfig& config, Exchange* exchange) {
  WireUp wire_up(*engine, config, exchange);
  auto group = wire_up.connect();
  Status status = group.status();
  std::unique_ptr<Communicator> comm;
  if (group.ok()) {
    // From here on the destructor leaves the group properly, whatever fails.
    comm.reset(new Communicator(engine, std::move(*group)));
    comm->set_wire_type(engine->settings().wire_type);
    {
      const std::lock_guard guard(engine->lock());
      engine->add(comm->group_);
    }
    if (config.size != 1) status = wire_up.ready();
    comm->complete_ = status.ok();
  }
  if (!status.ok()) {
    comm.reset();
    if (exchange) exchange->give_up(status);
    return status.in(fmt::format("creating '{}' on rank {} of {}", config.name, config.rank, config.size));
  }
  log(LogLevel::kInfo, "'{}': rank {} of {}, {} on this host, {}", config.name, config.rank, config.size,
      comm->local_size(), comm->direct() ? "shared memory" : "libfabric");
  return comm;
}

Result<std::unique_ptr<Communicator>> Communicator::create(const std::shared_ptr<Engine>& engine,
                                                           const WireUpConfig& config, Store* store) {
  if (config.size == 1) return connect(engine, config, nullptr);
  StoreExchange exchange(*store, config.name, config.rank, config.size);
  const Deadline deadline = Deadline::in_ms(config.timeout_ms);
  auto comm = connect(engine, config, &exchange);
  if (!comm.ok()) return comm.status();
  // Two barriers, between which the keys are removed: so a name may be used again.
  const std::string what =
      fmt::format("creating '{}' on rank {} of {}", config.name, config.rank, config.size);
  Status status = (*comm)->meet(deadline);
  if (!status.ok()) {
    comm->reset();
    exchange.give_up(status);  // ranks may read this one's keys still, and hear of the fault once they meet
    return status.in(what);
  }
  exchange.remove_keys();
  status = (*comm)->meet(deadline);
  // A rank that is through already may have failed in its next call: this rank's next call says so.
  const bool later = status.code() == FLOE_ERR_MISMATCH || status.code() == FLOE_ERR_ABORTED;
  if (!status.ok() && !later) return status.in(what);
  return comm;
}

Status Communicator::meet(Deadline deadline) {
  const Descriptor descriptor = collective(Kind::kCreation, 0);
  const uint64_t usual = timeout_ms();
  set_timeout(static_cast<uint64_t>(std::max<int64_t>(deadline.left().count(), 1)));
  const auto operation = direct() ? on_memory(descriptor, pattern::kBarrier, nullptr, nullptr, false)
                                  : scheduled(descriptor, floe::barrier(size(), rank()), nullptr, nullptr);
  set_timeout(usual);
  if (!operation.ok()) return operation.status();
  engine_->wait(**operation, Deadline::never());  // it has its own
  return (*operation)->status();
}

Communicator::~Communicator() {
  bool failed = false, unfinished = false;
  {
    const std::lock_guard guard(engine_->lock());
    failed = !group_.fault().ok();
    unfinished = group_.busy() || !complete_;
    group_.leave();
    engine_->wake_sleepers();  // threads of this rank that wait for what has just ended
    if (failed && spans_hosts()) say_farewell();
    if (const auto& own = group_.members()[rank()].segment)  // release: pairs with Survivors::agree()
      own->header().shrink.entered.store(ShrinkBoard::kNever, std::memory_order_release);
  }
  // What operations that ended well have sent must arrive; else only the news of the end should. Either would
  // be lost if the endpoint went while peers still send: TCP resets a connection that is closed with bytes
  // unread.
  constexpr Millis kLongest(2000), kLongestWhenFailed(300), kLongestWhenUnfinished(80);
  engine_->flush(group_, failed ? kLongestWhenFailed : unfinished ? kLongestWhenUnfinished : kLongest);
  const std::lock_guard guard(engine_->lock());
  engine_->remove(group_);
  FabricTransport* const fabric = engine_->fabric_if_open();
  for (const Member& member : group_.members())
    if (fabric && member.route.transport == fabric) fabric->remove_peer(member.route.peer);
}

uint32_t Communicator::local_rank() const {
  const auto& members = group_.members();
  return static_cast<uint32_t>(std::count_if(members.begin(), members.begin() + rank(),
                                             [](const Member& m) { return m.segment != nullptr; }));
}

uint32_t Communicator::local_size() const {
  const auto& members = group_.members();
  const auto local =
      std::count_if(members.begin(), members.end(), [](const Member& m) { return m.segment != nullptr; });
  return std::max<uint32_t>(1, static_cast<uint32_t>(local));
}

uint64_t Communicator::timeout_ms() const {
  const std::lock_guard guard(engine_->lock());
  return group_.timeout_ms();
}

void Communicator::set_timeout(uint64_t ms) {
  const std::lock_guard guard(engine_->lock());
  group_.set_timeout(ms);
}

void Communicator::hand_down_to(Communicator& child) const {
  child.set_timeout(timeout_ms());
  child.set_wire_type(wire_type());
}

std::vector<bool> Communicator::apart() const {
  const FabricTransport* const fabric = engine_->fabric_if_open();
  std::vector<bool> result;
  for (const Member& member : group_.members()) result.push_back(fabric && member.route.transport == fabric);
  return result;
}

void Communicator::abort() {
  const std::lock_guard guard(engine_->lock());
  group_.fail(error(FLOE_ERR_ABORTED, "{} called floe_comm_abort", group_.members()[rank()].who), rank());
  engine_->wake_sleepers();
}

void Communicator::out_of_memory() {
  const std::lock_guard guard(engine_->lock());
  group_.out_of_memory();
  engine_->wake_sleepers();
}

Communicator::Statistics Communicator::statistics() const {
  const std::lock_guard guard(engine_->lock());
  Statistics result = statistics_;
  result.status = group_.fault().code();
  result.completed = group_.completed();
  result.failed = group_.failed();
  return result;
}

Status Communicator::count(const Descriptor& descriptor, Status started) {
  if (started.ok())
    count(descriptor);
  else
    ++statistics_.refused;
  return started;
}

void Communicator::count(const Descriptor& descriptor) {
  const auto kind = static_cast<Kind>(descriptor.kind);
  if (kind == Kind::kSend) {
    ++statistics_.sends;
    statistics_.sent_bytes += descriptor.count;  // a message's type is that of bytes
  } else if (kind == Kind::kRecv) {
    ++statistics_.receives;
  } else {
    ++statistics_.collectives;
    statistics_.collective_bytes += descriptor.count * type_size(descriptor.type);
  }
}

Communicator::Started Communicator::start(std::shared_ptr<Collective> collective) {
  FLOE_TRY(count(collective->descriptor(), group_.start(collective)));
  engine_->started(group_);
  return std::shared_ptr<Operation>(std::move(collective));
}

Communicator::Started Communicator::scheduled(const Descriptor& descriptor, Schedule schedule,
                                              const void* send, void* recv) {
  auto operation = std::make_shared<ScheduledCollective>(descriptor, std::move(schedule), send, recv, size(),
                                                         group_.direct());
  const std::lock_guard guard(engine_->lock());
  return start(std::move(operation));
}

Communicator::Started Communicator::on_memory(const Descriptor& descriptor, Pattern pattern, const void* send,
                                              void* recv, bool wait) {
  const DirectArgs args = {
      pattern,         send, recv, descriptor.count, descriptor.type, descriptor.op, descriptor.root,
      hash(descriptor)};
  // Direct operations take their turn when they are made: under the lock, in the order they start.
  const std::lock_guard guard(engine_->lock());
  DirectOperation op = group_.direct()->make(args);
  if (!wait || !op.is_short()) return start(std::make_shared<DirectCollective>(descriptor, op));
  prepare(descriptor, args);
  std::shared_ptr<Collective> late;
  FLOE_TRY(count(descriptor, group_.run(descriptor, op, &late)));
  if (late) engine_->started(group_);
  return std::shared_ptr<Operation>(std::move(late));
}

Communicator::Started Communicator::scheduled(const Descriptor& descriptor, Operator op, Schedule schedule,
                                              const void* send, void* recv) {
  if (op.op != kPremulSum) return scheduled(descriptor, std::move(schedule), send, recv);
  auto [factored, at] = with_factors(schedule, size(), rank());
  auto operation = std::make_shared<ScheduledCollective>(descriptor, std::move(factored), send, recv, size(),
                                                         group_.direct());
  operation->set_factor(at, rank(), op.factor);
  const std::lock_guard guard(engine_->lock());
  return start(std::move(operation));
}

Communicator::Started Communicator::all_reduce(const void* send, void* recv, uint64_t count, floe_type_t type,
                                               Operator op, bool wait) {
  Descriptor descriptor = collective(Kind::kAllReduce, count, type, op.op);
  if (on_memory(op)) {
    if (const auto run = wait ? group_.direct()->small_reduce(count, type, op.op) : std::nullopt) {
      const std::lock_guard guard(engine_->lock());
      last_reduce_ = {descriptor, hash(descriptor), *run};
    }
    return on_memory(descriptor, pattern::kAllReduce, send, recv, wait);
  }
  const Elements data{count, type_size(type)};
  const bool sums = op.op == FLOE_SUM || op.op == FLOE_AVG || op.op == kPremulSum;
  // A small one has nothing to gain from fewer bytes, and stays exact.
  const bool narrow = wire_type() == FLOE_BFLOAT16 && type == FLOE_FLOAT32 && sums &&
                      !costs_less_than_a_crossing(size(), data);
  if (!narrow || direct()) {
    // 16- and 8-bit sums are rounded once, and a premul-sum's factors belong to sources in rank order.
    const bool in_any_order = data.element >= sizeof(float) && op.op != kPremulSum;
    return scheduled(descriptor, op, floe::all_reduce(size(), rank(), data, in_any_order), send, recv);
  }
  descriptor.root = FLOE_BFLOAT16;  // ranks that set another type are told so
  return scheduled(descriptor, op, narrow_all_reduce(size(), rank(), data, apart()), send, recv);
}

Communicator::Started Communicator::barrier(bool wait) {
  const Descriptor descriptor = collective(Kind::kBarrier, 0);
  if (direct()) return on_memory(descriptor, pattern::kBarrier, nullptr, nullptr, wait);
  return scheduled(descriptor, floe::barrier(size(), rank()), nullptr, nullptr);
}

Communicator::Started Communicator::reduce(const void* send, void* recv, uint64_t count, floe_type_t type,
                                           Operator op, uint32_t root, bool wait) {
  const Descriptor descriptor = collective(Kind::kReduce, count, type, op.op, root);
  if (on_memory(op)) return on_memory(descriptor, pattern::kReduce, send, recv, wait);
  return scheduled(descriptor, op, floe::reduce(size(), rank(), {count, type_size(type)}, root), send, recv);
}

Communicator::Started Communicator::broadcast(void* buffer, uint64_t count, floe_type_t type, uint32_t root,
                                              bool wait) {
  const Descriptor descriptor = collective(Kind::kBroadcast, count, type, 0, root);
  if (direct()) return on_memory(descriptor, pattern::kBroadcast, buffer, buffer, wait);
  return scheduled(descriptor, floe::broadcast(size(), rank(), {count, type_size(type)}, root), nullptr,
                   buffer);
}

Communicator::Started Communicator::all_gather(const void* send, void* recv, uint64_t count, floe_type_t type,
                                               bool wait) {
  const Descriptor descriptor = collective(Kind::kAllGather, count, type);
  if (direct()) return on_memory(descriptor, pattern::kAllGather, send, recv, wait);
  const Blocks to = equal_blocks(size(), count * type_size(type));
  const bool in_place = send == static_cast<std::byte*>(recv) + to[rank()].offset;
  return scheduled(descriptor, floe::all_gather(rank(), to, in_place), send, recv);
}

Communicator::Started Communicator::reduce_scatter(const void* send, void* recv, uint64_t count,
                                                   floe_type_t type, Operator op, bool wait) {
  const Descriptor descriptor = collective(Kind::kReduceScatter, count, type, op.op);
  if (on_memory(op)) return on_memory(descriptor, pattern::kReduceScatter, send, recv, wait);
  const Blocks from = equal_blocks(size(), count * type_size(type));
  return scheduled(descriptor, op, floe::reduce_scatter(rank(), from), send, recv);
}

Communicator::Started Communicator::send(const void* buffer, uint64_t bytes, uint32_t dest, uint64_t tag,
                                         bool wait) {
  std::shared_ptr<Operation> started;
  const std::lock_guard guard(engine_->lock());
  Message send = message(Kind::kSend, buffer, bytes, dest, tag);
  send.alone = wait;
  const Status status = start_send(send, wait, &started);
  group_.wake_peers();
  if (!status.ok()) return status;
  return started;
}

Communicator::Started Communicator::receive(void* buffer, uint64_t bytes, std::span<const uint32_t> sources,
                                            uint64_t tag, bool wait) {
  std::shared_ptr<Operation> started;
  const std::lock_guard guard(engine_->lock());
  FLOE_TRY(start_receive(message(Kind::kRecv, buffer, bytes, sources[0], tag), sources, wait, &started));
  return started;
}

Status Communicator::send_receive(const void* send, uint64_t sent_bytes, uint32_t dest, uint64_t send_tag,
                                  void* recv, uint64_t received_bytes, std::span<const uint32_t> sources,
                                  uint64_t recv_tag, std::shared_ptr<Operation>* sending,
                                  std::shared_ptr<Operation>* receiving) {
  const std::lock_guard guard(engine_->lock());
  Message sent = message(Kind::kSend, send, sent_bytes, dest, send_tag);
  sent.mutual = sources.size() == 1 && sources[0] == dest && received_bytes >= sent_bytes;
  FLOE_TRY(start_send(sent, true, sending));
  Status status = start_receive(message(Kind::kRecv, recv, received_bytes, sources[0], recv_tag), sources,
                                true, receiving);
  if (!status.ok() || *receiving) group_.wake_peers();  // a receive that has ended has done so
  return status;
}

Status Communicator::start_send(const Message& send, bool wait, std::shared_ptr<Operation>* started) {
  const bool sent = group_.send_at_once(send);
  if (sent) count(send.descriptor);
  if (sent && wait) return {};
  auto operation = std::make_shared<MessageOperation>(send.descriptor, Transfer{send});
  if (sent) {
    operation->finish_sent();
  } else {
    FLOE_TRY(count(send.descriptor, group_.start(operation)));
    engine_->started(group_);
  }
  *started = std::move(operation);
  return {};
}

Status Communicator::start_receive(const Message& receive, std::span<const uint32_t> sources, bool wait,
                                   std::shared_ptr<Operation>* started) {
  if (sources.size() == 1) sources = {};
  std::shared_ptr<MessageOperation> operation;
  if (wait) {
    FLOE_TRY(count(receive.descriptor, group_.receive(receive, sources, &operation)));
    if (!operation) return {};
  } else {
    operation = std::make_shared<MessageOperation>(receive.descriptor,
                                                   Transfer{receive, {sources.begin(), sources.end()}});
    FLOE_TRY(count(receive.descriptor, group_.start(operation)));
  }
  engine_->started(group_);
  *started = std::move(operation);
  return {};
}

}  // namespace floe
