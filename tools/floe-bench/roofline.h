// What an all_reduce without copies is bound by: each rank reads and writes as many bytes as it must, of
// memory of its own, by the same kernel, and waits for nobody. The result is no sum over ranks, and is not
// checked.
#pragma once

#include "buffers.h"
#include "contender.h"
#include "session.h"

namespace floe::bench {

class Roofline final : public Contender {
 public:
  static constexpr std::string_view kName = "roofline";
  explicit Roofline(const Session& session);

  std::string_view name() const override { return kName; }
  bool has_heap() const override { return false; }
  Result<Timings> run(const Case& what, uint64_t iterations) override;

 private:
  const Session& session_;
  Buffers buffers_;
};

}  // namespace floe::bench
