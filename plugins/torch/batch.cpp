#include "batch.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>

namespace floe_torch {
namespace {

using std::chrono::milliseconds;

std::map<const void*, std::vector<Batch::WorkPtr>>& regions() {
  thread_local std::map<const void*, std::vector<Batch::WorkPtr>> of_this_thread;
  return of_this_thread;
}

}  // namespace

bool Batch::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const WorkPtr& work) { return work->isCompleted(); });
}

bool Batch::isSuccess() const { return !exception(); }

std::exception_ptr Batch::exception() const {
  for (const WorkPtr& work : works_)
    if (auto problem = work->exception()) return problem;
  return nullptr;
}

bool Batch::wait(milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (const WorkPtr& work : works_) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    // To a work, 0 means for ever.
    work->wait(timeout == kNoTimeout ? kNoTimeout : std::max(left, milliseconds(1)));
  }
  return true;
}

void Batch::abort() {
  for (const WorkPtr& work : works_) work->abort();
}

std::vector<at::Tensor> Batch::result() {
  std::vector<at::Tensor> all;
  for (const WorkPtr& work : works_) {
    const auto part = work->result();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

c10::intrusive_ptr<c10::ivalue::Future> Batch::getFuture() {
  auto whole = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  const auto self = c10::intrusive_ptr<Batch>::unsafe_reclaim_from_nonowning(this);
  // One for this function: so a batch of nothing is complete as well.
  const auto left = std::make_shared<std::atomic<size_t>>(works_.size() + 1);
  const auto one_ended = [self, left, whole] {
    // Acquire and release: the last one sees what the others have written.
    if (left->fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (const auto problem = self->exception())
      whole->setError(problem);
    else
      whole->markCompleted(c10::IValue(self->result()));
  };
  for (const WorkPtr& work : works_)
    work->getFuture()->addCallback([one_ended](c10::ivalue::Future&) { one_ended(); });
  one_ended();
  return whole;
}

void Coalescing::start(const void* backend) { regions()[backend].clear(); }

bool Coalescing::under_way(const void* backend) {
  const auto& all = regions();
  return !all.empty() && all.contains(backend);
}

void Coalescing::note(const void* backend, const Batch::WorkPtr& work) {
  auto& all = regions();
  if (all.empty()) return;
  if (const auto found = all.find(backend); found != all.end()) found->second.push_back(work);
}

std::vector<Batch::WorkPtr> Coalescing::end(const void* backend) {
  auto region = regions().extract(backend);
  TORCH_CHECK(!region.empty(), "floe: the end of coalescing without a start on this thread");
  return std::move(region.mapped());
}

}  // namespace floe_torch
