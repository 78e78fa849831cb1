// The progress engine: one per context. Whoever waits or tests progresses everything under way, on its own
// thread; a worker does so while nobody waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/settings.h"
#include "base/status.h"
#include "engine/crowd.h"
#include "engine/group.h"
#include "engine/pace.h"
#include "engine/spinner.h"
#include "fabric/fabric_transport.h"
#include "shm/arena.h"
#include "shm/bell.h"

namespace floe {

// Protects everything in the engine. Held for a pass, some microseconds: it spins, then yields.
class EngineLock {
 public:
  bool try_lock() {
    // Acquire: pairs with the release in unlock().
    return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    if (!try_lock()) [[unlikely]]
      lock_later();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  void lock_later();
  std::atomic<bool> held_{false};
};

class Engine final : private PacketSink {
 public:
  static Result<std::shared_ptr<Engine>> create(Settings settings, uint32_t workers);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Stops the workers. Nothing may be under way.
  void stop();

  const Settings& settings() const { return settings_; }
  const Bell& bell() const { return bell_; }
  // What peers can map of this context, or why there is nothing.
  const Result<std::shared_ptr<Arena>>& arena() const { return arena_; }
  // Identifies this context among all: what tells two threads of one process apart.
  uint64_t id() const { return id_; }
  // Whether this is a forked child: nothing of the engine may be used then.
  bool forked() const { return forks.load(std::memory_order_relaxed) != forks_before_; }

  EngineLock& lock() { return lock_; }

  // The libfabric endpoint, opened at first need. Lock held.
  Result<FabricTransport*> fabric(const FabricOptions& options);
  FabricTransport* fabric_if_open() const { return fabric_.get(); }

  // The control connections that this context has, as long as some group uses them. Lock held.
  std::vector<std::shared_ptr<Control>> controls();
  void add(const std::shared_ptr<Control>& control);

  // Groups are added before their first operation and removed after their last. Lock held.
  void add(Group& group);
  void remove(Group& group);
  size_t groups() const { return groups_.size(); }

  // After Group::start, still under the lock: the group has something under way. Then its caller waits, or
  // notifies the worker, if there is one.
  void started(Group& group);
  void notify_worker();

  // Something that a thread of this context may sleep for has happened.
  void wake_sleepers();

  // Progresses the context until the operation is complete; false when `until` has passed before.
  bool wait(const Operation& operation, Deadline until);
  // One pass. Returns whether it is complete.
  bool test(const Operation& operation);
  // One pass over the letters of a group that has failed. Returns how much moved. Lock held.
  int progress_mail(Group& group);
  // Sends what the group, which has ended, has left for other hosts, until all have heard of its end.
  void flush(Group& group, Millis longest);

 private:
  Engine(Settings settings, Bell bell);

  int progress();         // lock held
  void check();           // lock held
  bool pass(int* moved);  // takes the lock unless another thread has it
  template <class Done>
  bool sleep(Millis limit, Done&& done);  // returns whether something has moved
  template <class Done>
  bool sleep_on_descriptors(Millis limit, Done&& done);
  std::vector<int> wait_fds();  // lock held
  bool is_slow() const;         // see Pace
  void run_worker();

  void on_packet(const PacketHeader& header, std::span<const std::byte> payload) override;
  void on_peer_lost(PeerId peer, const Status& why) override;

  static void count_forks();
  // In this process's ancestry since the library was loaded. A count alone: relaxed.
  static std::atomic<uint64_t> forks;

  Settings settings_;
  Bell bell_;
  uint64_t id_;
  Result<std::shared_ptr<Arena>> arena_;
  uint64_t forks_before_;
  EngineLock lock_;

  // Under the lock:
  std::vector<Group*> groups_;
  std::vector<Group*> busy_;  // groups with operations under way
  std::unique_ptr<FabricTransport> fabric_;
  std::vector<std::weak_ptr<Control>> controls_;
  Clock::time_point last_check_{};
  uint32_t passes_ = 0;

  // One thread sleeps on the descriptors for all, the others on the condition variable: an eventfd that
  // several sleep on and empty is lost to some.
  std::mutex sleep_mutex_;
  std::condition_variable news_changed_;
  bool polling_ = false;                // under sleep_mutex_: a thread sleeps on the descriptors
  uint64_t news_ = 0;                   // under sleep_mutex_
  std::atomic<uint32_t> followers_{0};  // threads on the condition variable

  bool apart_ = false, oversubscribed_ = false;  // some group's ranks are on several hosts, or share CPUs
  std::atomic<uint32_t> spins_{0}, yields_{0};   // of waits, before they sleep; hints
  Crowd crowd_;
  std::atomic<bool> awaits_runners_{false};  // as of the last pass; a hint
  std::atomic<bool> paced_{false};           // waits may sleep soon: see Pace; a hint
  Pace pace_;
  std::atomic<bool> any_busy_{false};       // !busy_.empty(), for the worker
  std::atomic<uint32_t> waiters_{0};        // threads in wait()
  std::atomic<bool> rung_unfenced_{false};  // by peers of some group: for Bell::begin_sleep
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> wake_worker_{0};  // counts reasons to look again
  std::thread worker_;
};

}  // namespace floe
