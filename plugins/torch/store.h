// PyTorch's store as floe's: used while a communicator is created, on the thread that creates it.
#pragma once

#include <floe/floe.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace floe_torch {

class StoreAdapter {
 public:
  // `cancelled` is asked while a key is waited for, at least once a second; null: never cancelled.
  StoreAdapter(c10::intrusive_ptr<c10d::Store> store, std::function<bool()> cancelled)
      : store_(std::move(store)), cancelled_(std::move(cancelled)) {}
  StoreAdapter(const StoreAdapter&) = delete;
  StoreAdapter& operator=(const StoreAdapter&) = delete;

  // Valid as long as this object.
  floe_store_t callbacks();
  // What the store said when it last failed.
  const std::string& problem() const { return problem_; }

 private:
  template <class F>
  floe_status_t guarded(F&& body);

  floe_status_t wait(const char* key, std::chrono::milliseconds limit);

  c10::intrusive_ptr<c10d::Store> store_;
  std::function<bool()> cancelled_;
  std::string problem_;
};

}  // namespace floe_torch
