#include "backend.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <numeric>
#include <shared_mutex>

#include "batch.h"
#include "errors.h"
#include "exit_gate.h"

namespace floe_torch {
namespace {

constexpr size_t kLongestName = 63;  // of a communicator
constexpr std::chrono::seconds kLongestDrain(5);
// Callers' tags have 31 bits.
constexpr uint64_t kLevelTag = uint64_t{3} << 62;

}  // namespace

c10::intrusive_ptr<Backend> Backend::create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            const std::string& name, Milliseconds timeout) {
  const ExitGate gate;
  TORCH_CHECK(timeout.count() > 0, "floe: the process group's timeout is ", timeout.count(),
              " ms: it must be positive");
  Process& process = Process::get();
  auto backend = c10::make_intrusive<Backend>(process, store, rank, size, name, timeout);
  process.add(backend);
  return backend;
}

Backend::Backend(Process& process, c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 std::string name, Milliseconds timeout)
    : c10d::Backend(rank, size),
      process_(process),
      options_(c10::make_intrusive<Options>("floe", timeout)),
      name_(std::move(name)),
      store_(std::move(store)) {
  for (int i = 0; i < kLevels; ++i) levels_[i].queue = std::make_shared<CompletionQueue>(process.pool(), i);
  levels_.front().comm =
      std::make_shared<Communicator>(process.context().get(), store_, rank, size, name_, timeout, health_);
  init();
}

Backend::~Backend() { shutdown(); }

void Backend::shutdown() {
  collectives_->drain(kLongestDrain);
  if (hooked_.load(std::memory_order_acquire)) {
    hook_->drain(kLongestDrain);
    hook_->forget();
  }
  std::vector<std::shared_ptr<Communicator>> comms;
  c10::intrusive_ptr<c10d::Store> store;
  {
    const std::lock_guard lock(mutex_);
    for (Level& level : levels_)
      if (level.comm) comms.push_back(std::move(level.comm));
    store = std::move(store_);
  }
  // Another thread is inside an operation: it gets an error, and leaves the communicator in our place.
  for (const auto& comm : comms)
    if (comm.use_count() > 1) floe_comm_abort(comm->handle());
}

void Backend::abort() {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  for (const auto& comm : communicators()) check(floe_comm_abort(comm->handle()), "floe:abort");
}

void Backend::setTimeout(Milliseconds timeout) {
  for (const auto& comm : communicators()) {
    const std::lock_guard alone(comm->starting());
    check(floe_comm_set_timeout(comm->handle(), static_cast<uint64_t>(std::max<int64_t>(0, timeout.count()))),
          "floe:set_timeout");
  }
  options_->timeout = timeout;
}

bool Backend::supportsTensorAlloc(c10::DeviceIndex /*of CPUs: any*/) {
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  check(floe_comm_info(communicators().front()->handle(), &info), "floe:supports_tensor_alloc");
  return size_ > 1 && info.direct != 0;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK(options.device().is_cpu() && options.layout() == at::kStrided,
              "floe:allocate_tensor: floe has memory for dense CPU tensors, not for ", options);
  return at::Tensor(at::detail::empty_generic({size}, &process_.memory(),
                                              c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              c10::typeMetaToScalarType(options.dtype()), std::nullopt));
}

std::shared_ptr<c10::Allocator> Backend::getMemAllocator() {
  return {std::shared_ptr<void>(), &process_.memory()};  // the process's, for ever
}

std::vector<std::shared_ptr<Communicator>> Backend::communicators() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(levels_.front().comm, "floe: this process group has been shut down");
  std::vector<std::shared_ptr<Communicator>> comms;
  for (const Level& level : levels_)
    if (level.comm) comms.push_back(level.comm);
  return comms;
}

Backend::Level& Backend::level(const char* what) {
  TORCH_CHECK(this_level() < kLevels, what,
              ": issued by a callback of a future of a collective that was itself",
              " issued by a callback, and so on, ", kLevels, " deep: at most ", kLevels - 1,
              " levels of callbacks may issue collectives");
  return levels_[this_level()];
}

std::shared_ptr<Communicator> Backend::communicator(Level& level) {
  const auto existing = [&] {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(levels_.front().comm, "floe: this process group has been shut down");
    return level.comm;
  };
  if (auto comm = existing()) return comm;
  const std::lock_guard creating(level.creating);
  if (auto comm = existing()) return comm;
  auto comm = create(level);
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(store_ && !aborted_, "floe: this process group has been shut down or aborted");
  return level.comm = std::move(comm);
}

std::shared_ptr<Communicator> Backend::create(Level& level) {
  std::shared_ptr<Communicator> group;
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(store_ && !aborted_, "floe: this process group has been shut down or aborted");
    group = levels_.front().comm;
  }
  const auto number = static_cast<uint64_t>(&level - levels_.data());
  const std::string suffix = c10::str("+", number);
  const std::string name = name_.substr(0, kLongestName - suffix.size()) + suffix;
  WhileCreating watch(std::move(group), rank_, size_, kLevelTag | number, level.ring);
  try {
    auto comm = std::make_shared<Communicator>(process_.context().get(), own_store(), rank_, size_, name,
                                               options_->timeout, health_, [&] { return watch.failed(); });
    watch.done();
    return comm;
  } catch (const std::exception&) {
    watch.check_group();  // says more
    watch.give_up();
    throw;
  }
}

c10::intrusive_ptr<c10d::Store> Backend::own_store() {
  c10::intrusive_ptr<c10d::Store> store;
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(store_, "floe: this process group has been shut down");
    store = store_;
  }
  return store->clone();
}

void Backend::startCoalescing() { Coalescing::start(this); }

Backend::WorkPtr Backend::endCoalescing() { return c10::make_intrusive<Batch>(rank_, Coalescing::end(this)); }

uint32_t Backend::root_rank(const char* what, int64_t root) const {
  TORCH_CHECK(root >= 0 && root < size_, what, ": root is ", root, ": it must be a rank below ", size_);
  return static_cast<uint32_t>(root);
}

void Backend::registerOnCompletionHook(CompletionHook::Function&& hook) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!hook_, "floe: this process group has a completion hook already");
  hook_ = std::make_shared<CompletionHook>(process_.pool(), std::move(hook));
  onCompletionHook_ = [](const auto&) {};  // of this PyTorch only asks whether it is there
  hooked_.store(true, std::memory_order_release);
}

void Backend::waitForPendingWorks() {
  TORCH_CHECK(hooked_.load(std::memory_order_acquire),
              "floe:wait_for_pending_works: this process group has no completion hook");
  const ExitGate gate;
  TORCH_CHECK(hook_->drain(options_->timeout),
              "floe:wait_for_pending_works: Timed out : works, or the hook's",
              " calls for them, have not ended after ", options_->timeout.count(), " ms");
}

std::vector<uint64_t> Backend::members(const std::vector<int>& ranks) const {
  std::vector<uint64_t> result;
  for (const int rank : ranks)
    result.push_back(members_.empty() ? static_cast<uint64_t>(rank) : members_.at(static_cast<size_t>(rank)));
  return result;
}

FlightLog::Entry Backend::record(const FlightLog::Operation& operation) {
  // PyTorch names a group after it has made it.
  std::call_once(members_told_, [&] {
    std::vector<int> ranks(static_cast<size_t>(size_));
    std::iota(ranks.begin(), ranks.end(), 0);
    flight_->describe(pg_uid_, pg_desc_, members(ranks));
  });
  return flight_->started(operation);
}

Backend::WorkPtr Backend::launch(Operation operation) {
  static const Tensors none;
  const Tensors& outputs = operation.outputs.empty() ? none : operation.outputs.front();
  if (operation.calls.size() == 1 && blocks(operation.asynchronous, operation.timeout)) {
    run({.type = operation.type,
         .title = operation.title,
         .inputs = operation.inputs,
         .outputs = outputs,
         .call = [&](floe_comm_t* comm) { return operation.calls.front()(comm, nullptr); },
         .epilogue = operation.epilogue});
    return nullptr;
  }
  const ExitGate gate;
  const bool collective = !c10d::isP2POp(operation.type);
  Level& at = collective ? level(operation.title) : levels_.front();
  // A callback that waits for the other ranks to make its level's communicator keeps its place, too.
  const Chain::UnderWay creating(collective ? this_chain() : nullptr);
  const auto comm = communicator(at);
  const uint64_t sequence = collective ? ++sequence_ : 0;
  const bool own_timeout = has_own(operation.timeout);
  const Milliseconds timeout = own_timeout ? operation.timeout : options_->timeout;
  const FlightLog::Entry entry =
      record({operation.title, operation.inputs, outputs, sequence, timeout, false});
  auto work = c10::make_intrusive<Work>(rank_, sequence, std::move(operation), comm, process_.pool(),
                                        collective ? at.queue : nullptr, collective ? collectives_ : nullptr);
  work->tell(flight_, entry, hooked_.load(std::memory_order_acquire) ? hook_ : nullptr);
  if (own_timeout) {
    const std::lock_guard alone(comm->starting());
    check(floe_comm_set_timeout(comm->handle(), static_cast<uint64_t>(timeout.count())), "floe:set_timeout");
    const auto restore = c10::make_scope_exit(
        [&] { floe_comm_set_timeout(comm->handle(), static_cast<uint64_t>(options_->timeout.count())); });
    work->start();
  } else {
    const std::shared_lock starting(comm->starting());
    work->start();
  }
  Coalescing::note(this, work);
  return work;
}

}  // namespace floe_torch
