// floe over one of libfabric's providers, between ranks that could share memory.
#pragma once

#include <optional>
#include <string>

#include "contender.h"
#include "floe_contender.h"
#include "session.h"

namespace floe::bench {

class ProviderContender final : public Contender {
 public:
  explicit ProviderContender(const std::string& provider) : provider_(provider), name_("ofi-" + provider) {}

  // All ranks together.
  Status start();

  std::string_view name() const override { return name_; }
  Result<Timings> run(const Case& what, uint64_t iterations) override { return floe_->run(what, iterations); }

 private:
  std::string provider_, name_;
  Session session_;
  std::optional<FloeContender> floe_;
};

}  // namespace floe::bench
