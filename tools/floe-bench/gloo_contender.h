// torch.distributed's Gloo, in a Python process of each rank that obeys commands on a pipe: peer_gloo.py.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/fd.h"
#include "contender.h"

namespace floe::bench {

struct GlooConfig {
  std::string python;  // "": ./.venv/bin/python if there is one, else python3
  std::string address;
  uint16_t port = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

class GlooContender final : public Contender {
 public:
  // Returns once Gloo is connected on this rank.
  static Result<std::unique_ptr<GlooContender>> start(const GlooConfig& config);
  ~GlooContender() override;

  std::string_view name() const override { return "gloo"; }
  Result<Timings> run(const Case& what, uint64_t iterations) override;

 private:
  GlooContender(pid_t pid, UniqueFd to, UniqueFd from)
      : pid_(pid), to_(std::move(to)), from_(std::move(from)) {}

  Result<std::string> read_line();
  Status write_line(std::string line);

  pid_t pid_;
  UniqueFd to_;
  UniqueFd from_;
  std::string buffered_;
};

}  // namespace floe::bench
