#include "engine/engine.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "boot/random.h"
#include "topo/topology.h"

namespace floe {
namespace {

constexpr Millis kCheckEvery(5);

// Runs at the end of its scope, however that is left.
template <class F>
class AtExit {
 public:
  explicit AtExit(F run) : run_(std::move(run)) {}
  ~AtExit() { run_(); }
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;

 private:
  F run_;
};

// Memory that one group can't get ends that group, and nobody else's wait. Returns how much moved.
template <class F>
int within_memory(Group& group, F&& pass) {
  try {
    return pass(group);
  } catch (const std::bad_alloc&) {
    group.out_of_memory();
    return 1;
  }
}

}  // namespace

void EngineLock::lock_later() {
  constexpr int kSpins = 1000;
  for (int spin = 0; !try_lock(); ++spin) {
    if (spin < kSpins)
      pause_cpu();
    else
      ::sched_yield();
  }
}

Engine::Engine(Settings settings, Bell bell)
    : settings_(std::move(settings)),
      bell_(std::move(bell)),
      id_(random_u64()),
      arena_(Arena::create(id_)),
      forks_before_(forks.load(std::memory_order_relaxed)),
      crowd_(bell_.cpu()) {}

Result<std::shared_ptr<Engine>> Engine::create(Settings settings, uint32_t workers) {
  count_forks();
  auto bell = Bell::create();
  if (!bell.ok()) return bell.status();
  std::shared_ptr<Engine> engine(new Engine(std::move(settings), std::move(*bell)));
  if (workers != 0) {
    auto worker = start_thread("a worker", [raw = engine.get()] { raw->run_worker(); });
    if (!worker.ok()) return worker.status();
    engine->worker_ = std::move(*worker);
  }
  return engine;
}

Engine::~Engine() {
  if (forked()) {
    if (worker_.joinable()) worker_.detach();  // there is no such thread in this process
    return;
  }
  stop();
}

void Engine::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  notify_worker();
  wake_sleepers();
  if (worker_.joinable()) worker_.join();
}

std::atomic<uint64_t> Engine::forks{0};

void Engine::count_forks() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

Result<FabricTransport*> Engine::fabric(const FabricOptions& options) {
  if (!fabric_) {
    auto opened = FabricTransport::open(options);
    if (!opened.ok()) return opened.status();
    fabric_ = std::move(*opened);
  }
  return fabric_.get();
}

std::vector<std::shared_ptr<Control>> Engine::controls() {
  std::vector<std::shared_ptr<Control>> living;
  std::erase_if(controls_, [](const auto& control) { return control.expired(); });
  for (const auto& control : controls_)
    if (auto one = control.lock()) living.push_back(std::move(one));
  return living;
}

void Engine::add(const std::shared_ptr<Control>& control) { controls_.push_back(control); }

void Engine::add(Group& group) {
  groups_.push_back(&group);
  busy_.reserve(groups_.size());  // so that started() can't fail
  // Where ranks share CPUs the peer may need this very one, and a switch to it costs no more than a few
  // passes: with 50 of them 8 ranks on 2 CPUs took twice as long, for 8 B as for 1 KiB, and 4 ranks three
  // times.
  constexpr uint32_t kSpins = 2000, kSpinsOversubscribed = 1;
  // A pass over libfabric's sockets is a call of the kernel, beside which a yield costs little, and without
  // one whoever else has packets to move on these CPUs waits for a time slice: with 2000 passes instead of
  // yields, 4 hosts on 2 CPUs took 2200 us for 8 B, not 140.
  const auto is_apart = [this](const Member& member) {
    return fabric_ && member.route.transport == fabric_.get();
  };
  apart_ |= std::any_of(group.members().begin(), group.members().end(), is_apart);
  paced_.store(apart_ && worker_.joinable(), std::memory_order_relaxed);
  oversubscribed_ |= group.oversubscribed();
  if (group.oversubscribed()) group.set_crowd(crowd_);
  // Before any peer publishes in this group, which waits for all ranks to have added it.
  if (group.rings_unfenced()) rung_unfenced_.store(true, std::memory_order_seq_cst);
  spins_.store(oversubscribed_ || apart_ ? kSpinsOversubscribed : kSpins, std::memory_order_relaxed);
  yields_.store(oversubscribed_ && !apart_ ? Spinner::kFewYields : Spinner::kYields,
                std::memory_order_relaxed);
  for (const Member& member : group.members())
    if (member.bell) crowd_.add(member.bell->cpu());
}

void Engine::remove(Group& group) {
  for (const Member& member : group.members())
    if (member.bell) crowd_.remove(member.bell->cpu());
  std::erase(groups_, &group);
  std::erase(busy_, &group);
  any_busy_.store(!busy_.empty(), std::memory_order_relaxed);
}

void Engine::started(Group& group) {
  group.wake_peers();
  if (!group.busy()) return;
  if (busy_.empty() && paced_.load(std::memory_order_relaxed)) pace_.begin(Clock::now());
  if (std::find(busy_.begin(), busy_.end(), &group) == busy_.end()) busy_.push_back(&group);
  any_busy_.store(true, std::memory_order_seq_cst);
}

int Engine::progress() {
  int moved = fabric_ && !busy_.empty() ? fabric_->progress(*this) : 0;
  for (size_t i = 0; i < busy_.size(); ++i)
    moved += within_memory(*busy_[i], [](Group& group) { return group.progress(); });
  if (oversubscribed_)
    awaits_runners_.store(moved == 0 && busy_.size() == 1 && busy_[0]->awaits_runners(),
                          std::memory_order_relaxed);
  constexpr uint32_t kPassesPerClock = 32;  // reading the clock costs as much as a pass
  if (++passes_ % kPassesPerClock == 0 && Clock::now() - last_check_ > kCheckEvery) check();
  for (size_t i = 0; i < busy_.size();) {
    Group& group = *busy_[i];
    group.wake_peers();
    if (group.busy()) {
      ++i;
      continue;
    }
    busy_[i] = busy_.back();
    busy_.pop_back();
    any_busy_.store(!busy_.empty(), std::memory_order_relaxed);
  }
  return moved;
}

void Engine::check() {
  last_check_ = Clock::now();
  for (size_t i = 0; i < busy_.size(); ++i)
    within_memory(*busy_[i], [](Group& group) {
      group.check();
      return 0;
    });
}

bool Engine::pass(int* moved) {
  {
    const std::unique_lock guard(lock_, std::try_to_lock);
    if (!guard) return false;
    *moved = progress();
  }
  // Another thread may sleep for what this pass has completed.
  if (*moved != 0 && waiters_.load(std::memory_order_relaxed) + (worker_.joinable() ? 1 : 0) > 1)
    wake_sleepers();
  return true;
}

bool Engine::is_slow() const { return paced_.load(std::memory_order_relaxed) && pace_.is_slow(Clock::now()); }

void Engine::wake_sleepers() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with Bell::begin_sleep and sleep()
  bell_.ring_if_sleeping();
  if (followers_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard guard(sleep_mutex_);
  ++news_;
  news_changed_.notify_all();
}

std::vector<int> Engine::wait_fds() {
  std::vector<int> fds = {bell_.event_fd()};
  if (fabric_ && fabric_->wait_fd() >= 0) fds.push_back(fabric_->wait_fd());
  for (const Group* group : busy_) {
    if (group->control()) fds.push_back(group->control()->wait_fd());
    for (const Member& member : group->members())
      if (member.pidfd.valid() && member.state == Member::State::kAlive) fds.push_back(member.pidfd.get());
  }
  return fds;
}

template <class Done>
bool Engine::sleep(Millis limit, Done&& done) {
  {
    std::unique_lock guard(sleep_mutex_);
    if (polling_) {
      const uint64_t seen = news_;
      // seq_cst: pairs with the fence in wake_sleepers(); either that sees a follower or done() is seen here.
      followers_.fetch_add(1, std::memory_order_seq_cst);
      if (!done()) news_changed_.wait_for(guard, limit, [&] { return news_ != seen || !polling_; });
      followers_.fetch_sub(1, std::memory_order_relaxed);
      return news_ != seen;
    }
    polling_ = true;
  }
  // A follower polls then, if this thread doesn't come back first, or has been served by this one's pass.
  const AtExit stop_polling([this] {
    const std::lock_guard guard(sleep_mutex_);
    polling_ = false;
    news_changed_.notify_all();
  });
  return sleep_on_descriptors(limit, done);
}

template <class Done>
bool Engine::sleep_on_descriptors(Millis limit, Done&& done) {
  int moved = 0;
  {
    // See bell.h: the last look for work comes after the flag is up.
    constexpr Millis kLongestUnheard(1);
    const bool often = crowd_.is_at(Clock::now());
    if (!bell_.begin_sleep(rung_unfenced_, often)) limit = std::min(limit, kLongestUnheard);
    const AtExit end_sleep([this] { bell_.end_sleep(); });
    std::vector<pollfd> fds;
    bool may_sleep = false;
    {
      const std::lock_guard guard(lock_);
      for (Group* group : busy_) group->hurry();
      moved = progress();
      if (moved == 0 && !done()) {
        try {
          for (const int fd : wait_fds()) fds.push_back({fd, POLLIN, 0});
        } catch (const std::bad_alloc&) {  // no operation's error
          limit = Millis(1);
        }
        for (const Group* group : busy_) limit = std::min(limit, group->longest_sleep());
        may_sleep = !fabric_ || fabric_->prepare_wait();
        if (fabric_ && fabric_->wait_fd() < 0) limit = std::min(limit, Millis(1));
      }
    }
    if (may_sleep) ::poll(fds.data(), fds.size(), static_cast<int>(limit.count()));
  }
  const std::lock_guard guard(lock_);
  moved += progress();
  check();
  return moved != 0;
}

bool Engine::wait(const Operation& operation, Deadline until) {
  if (operation.complete()) return true;
  // seq_cst: pairs with the worker's load after any_busy_, so that it steps aside.
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const AtExit hand_over([this] {
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
    if (any_busy_.load(std::memory_order_seq_cst)) notify_worker();
  });
  Spinner spinner(spins_.load(std::memory_order_relaxed), yields_.load(std::memory_order_relaxed), &crowd_);
  const bool paced = paced_.load(std::memory_order_relaxed);
  auto quiet_since = paced ? Clock::now() : Clock::time_point();
  const auto keep_pace = [&] {
    if (!paced) return;
    const auto now = Clock::now();
    pace_.moved(now - std::exchange(quiet_since, now));
  };
  for (uint32_t turn = 0; !operation.complete(); ++turn) {
    int moved = 0;
    if (pass(&moved) && moved != 0) {
      spinner.reset();
      keep_pace();
    }
    if (operation.complete()) return true;
    constexpr uint32_t kTurnsPerClock = 64;
    if (turn % kTurnsPerClock == 0 && until.passed()) return false;
    if (!spinner.step(is_slow(), awaits_runners_.load(std::memory_order_relaxed))) continue;
    if (until.passed()) return false;
    if (sleep(std::min(until.left(), spinner.longest_sleep()), [&] { return operation.complete(); })) {
      spinner.wake();
      keep_pace();
    }
  }
  return true;
}

bool Engine::test(const Operation& operation) {
  int moved = 0;
  if (!operation.complete()) pass(&moved);
  return operation.complete();
}

int Engine::progress_mail(Group& group) {
  const int moved = fabric_ ? fabric_->progress(*this) : 0;
  return moved + group.progress_mail();
}

void Engine::flush(Group& group, Millis longest) {
  const Deadline deadline = Deadline::in(longest);
  const auto left = [&] {
    const std::lock_guard guard(lock_);
    if (!fabric_) return false;
    fabric_->progress(*this);
    return group.has_outgoing() || !fabric_->idle() || !group.settled();
  };
  while (left() && !deadline.passed()) ::sched_yield();
}

// ---- Worker ---------------------------------------------------------------------------------------------

void Engine::notify_worker() {
  if (!worker_.joinable()) return;
  wake_worker_.fetch_add(1, std::memory_order_seq_cst);
  wake_worker_.notify_one();
}

void Engine::run_worker() {
  if (!settings_.worker_affinity.empty()) {
    const Status pinned = pin_this_thread(settings_.worker_affinity);
    if (!pinned.ok()) log(LogLevel::kWarn, "the worker is not pinned: {}", pinned.message());
  }
  Spinner spinner(50, Spinner::kFewYields);
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const uint32_t seen = wake_worker_.load(std::memory_order_seq_cst);
    // seq_cst: pairs with wait() and started(); either they see this thread wait and wake it, or it
    // sees their change here.
    if (waiters_.load(std::memory_order_seq_cst) != 0 || !any_busy_.load(std::memory_order_seq_cst)) {
      if (!stopping_.load(std::memory_order_seq_cst)) wake_worker_.wait(seen, std::memory_order_seq_cst);
      spinner.reset();
      continue;
    }
    try {
      int moved = 0;
      if (pass(&moved) && moved != 0) spinner.reset();
      if (spinner.step(is_slow()) && sleep(spinner.longest_sleep(), [&] {
            return stopping_.load() || waiters_.load() != 0 || !any_busy_.load();
          }))
        spinner.wake();
    } catch (const std::bad_alloc&) {  // not even enough to end the group: again, with what is free then
      ::sched_yield();
    }
  }
}

// ---- Fabric packets -------------------------------------------------------------------------------------

void Engine::on_packet(const PacketHeader& header, std::span<const std::byte> payload) {
  const auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group* g) { return g->key() == header.comm; });
  if (found == groups_.end()) return;
  within_memory(**found, [&](Group& group) {
    group.on_packet(header, payload);
    return 0;
  });
}

void Engine::on_peer_lost(PeerId peer, const Status& why) {
  for (Group* group : groups_)
    for (uint32_t rank = 0; rank < group->size(); ++rank) {
      const Messenger::Route& route = group->members()[rank].route;
      if (route.transport == fabric_.get() && route.peer == peer) group->lost(rank, why);
    }
}

}  // namespace floe
