// How C++ programs reach the backend; register.cpp is how Python does.
#include <floe/torch.h>

#include "backend.h"

namespace floe {

c10::intrusive_ptr<c10d::Backend> create_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                 int size, std::chrono::milliseconds timeout,
                                                 const std::string& name) {
  return floe_torch::Backend::create(store, rank, size, name, timeout);
}

}  // namespace floe
