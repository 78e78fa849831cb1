// floe through its C API.
#pragma once

#include "buffers.h"
#include "contender.h"
#include "session.h"

namespace floe::bench {

class FloeContender final : public Contender {
 public:
  // Whatever is asked for, on ordinary buffers.
  enum class Memory { kAsAsked, kOrdinary };
  explicit FloeContender(const Session& session, Memory memory = Memory::kAsAsked);

  std::string_view name() const override { return memory_ == Memory::kOrdinary ? "ordinary" : "floe"; }
  bool has_heap() const override { return memory_ == Memory::kAsAsked; }
  Result<Timings> run(const Case& asked, uint64_t iterations) override;

 private:
  const Session& session_;
  Memory memory_;
  Buffers buffers_;
};

}  // namespace floe::bench
