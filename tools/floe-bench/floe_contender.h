// floe through its C API.
#pragma once

#include "buffers.h"
#include "contender.h"
#include "session.h"

namespace floe::bench {

class FloeContender final : public Contender {
 public:
  explicit FloeContender(const Session& session);

  std::string_view name() const override { return "floe"; }
  Result<Timings> run(const Case& what, uint64_t iterations) override;

 private:
  const Session& session_;
  Buffers buffers_;
};

}  // namespace floe::bench
