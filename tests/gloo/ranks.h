// Ranks of a Gloo context as threads of the test, each with a floe context of its own.
#pragma once

#include <floe/floe.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device.h"
#include "gloo_abi.h"

namespace floe::gloo_transport {

namespace abi = gloo_abi::FLOE_GLOO_ABI;
using FLOE_GLOO_ABI::Device;

#if FLOE_GLOO_REVISION >= 2
class MemoryStore final : public abi::IStore {
 public:
  void set(const std::string& key, const std::vector<char>& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::vector<char> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.at(key);
  }
  void wait(const std::vector<std::string>& keys, const abi::Millis& timeout) override {
    std::unique_lock lock(mutex_);
    for (const std::string& key : keys) {
      if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); })) {
        throw std::runtime_error("no key " + key);
      }
    }
  }
#if FLOE_GLOO_REVISION >= 3
  std::vector<char> wait_get(const std::string& key, const abi::Millis& timeout) override {
    wait({key}, timeout);
    return get(key);
  }
  bool has_v2_support() override { return false; }
  std::vector<std::vector<char>> multi_get(const std::vector<std::string>&) override {
    throw std::logic_error("not used");
  }
  void multi_set(const std::vector<std::string>&, const std::vector<std::vector<char>>&) override {
    throw std::logic_error("not used");
  }
  void append(const std::string&, const std::vector<char>&) override { throw std::logic_error("not used"); }
  int64_t add(const std::string&, int64_t) override { throw std::logic_error("not used"); }
#endif

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<char>> values_;
};
#endif

// All ranks arrive before one goes on: for what happens outside the transport.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  void operator()() {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return round != round_; });
    }
  }

 private:
  const int size_;
  int arrived_ = 0;
  int round_ = 0;
  std::mutex mutex_;
  std::condition_variable all_here_;
};

inline std::shared_ptr<floe_context_t> make_floe_context() {
  floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
  config.workers = 1;
  floe_context_t* context = nullptr;
  if (floe_context_create(&config, &context) != FLOE_OK) throw std::runtime_error(floe_last_error());
  return {context, [](floe_context_t* c) { (void)floe_context_destroy(c); }};
}

inline std::unique_ptr<abi::UnboundBuffer> buffer_of(abi::Context& context, std::vector<int>& data) {
  return context.createUnboundBuffer(data.data(), data.size() * sizeof(int));
}

// What ranks connect through: the store, or in R0 their pairs' addresses, as Gloo's rendezvous exchanges
// them.
class Rendezvous {
 public:
  explicit Rendezvous(int size) : addresses_(size), announced_(size) {}
  void connect(abi::Context& context) {
#if FLOE_GLOO_REVISION == 0
    connect_pairs(context);
#elif FLOE_GLOO_REVISION == 2
    context.createAndConnectAllPairs(*store_);
#else
    context.createAndConnectAllPairs(store_);
#endif
  }
  void connect_pairs(abi::Context& context) {
    auto& own = addresses_[context.rank];
    own.resize(context.size);
    for (int peer = 0; peer < context.size; ++peer) {
      if (peer != context.rank) own[peer] = context.createPair(peer)->address().bytes();
    }
    announced_();
    for (int peer = 0; peer < context.size; ++peer) {
      if (peer != context.rank) context.getPair(peer)->connect(addresses_[peer][context.rank]);
    }
  }

 private:
#if FLOE_GLOO_REVISION >= 2
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
#endif
  std::vector<std::vector<std::vector<char>>> addresses_;  // by owner and peer
  Meeting announced_;
};

// Runs `body` for each rank of a context that has been connected on all; rethrows what the lowest rank threw.
inline void on_ranks(int size, const std::function<void(std::shared_ptr<abi::Context>)>& body,
                     abi::Millis timeout = std::chrono::seconds(30)) {
  Rendezvous rendezvous(size);
  Meeting connected(size);
  std::vector<std::exception_ptr> thrown(size);
  const auto guarded = [&](int rank, const auto& action) {
    try {
      action();
    } catch (...) {
      thrown[rank] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::shared_ptr<floe_context_t> floe;
      std::shared_ptr<abi::Context> context;
      guarded(rank, [&] {
        floe = make_floe_context();
        context = std::make_shared<Device>(floe.get(), "127.0.0.1")->createContext(rank, size);
        context->timeout_ = timeout;
        rendezvous.connect(*context);
      });
      connected();
      if (!thrown[rank]) guarded(rank, [&] { body(std::move(context)); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto first = std::find_if(thrown.begin(), thrown.end(), [](const auto& e) { return e != nullptr; });
  if (first != thrown.end()) std::rethrow_exception(*first);
}

}  // namespace floe::gloo_transport
