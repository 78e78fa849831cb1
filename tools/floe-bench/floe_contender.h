// floe through its C API.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "contender.h"
#include "ticks.h"

namespace floe::bench {

class FloeContender final : public Contender {
 public:
  FloeContender(floe_comm_t* comm, uint32_t rank, uint32_t ranks, const Ticks& ticks)
      : comm_(comm), rank_(rank), ranks_(ranks), ticks_(ticks) {}

  std::string_view name() const override { return "floe"; }
  Result<Timings> run(const Case& what, uint64_t iterations) override;

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  // Page-aligned memory that stays the caller's and is only grown.
  struct Memory {
    std::unique_ptr<std::byte, Free> data;
    size_t bytes = 0;
    Status grow(size_t wanted);
  };

  Result<Call> prepare(const Case& what);

  floe_comm_t* comm_;
  uint32_t rank_;
  uint32_t ranks_;
  const Ticks& ticks_;
  Memory send_;
  Memory recv_;
};

}  // namespace floe::bench
