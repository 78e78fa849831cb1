// A library that runs in a process of its own beside each rank: peer_torch.py, peer_mpi or peer_oneccl. The
// process obeys commands, one JSON object a line, and blocks in read() until the next.
#pragma once

#include <memory>
#include <string>

#include "child.h"
#include "contender.h"

namespace floe::bench {

class PeerContender final : public Contender {
 public:
  struct Link {
    std::string name;
    std::unique_ptr<Child> child;  // none on ranks whose process another rank's mpiexec has started
    UniqueFd to, from;
    bool has_heap = false;  // an allocator of its own
  };
  explicit PeerContender(Link link) : link_(std::move(link)) {}
  ~PeerContender() override;

  // Returns once the process has said that it is connected to its own peers.
  Status greet();

  std::string_view name() const override { return link_.name; }
  bool has_heap() const override { return link_.has_heap; }
  Result<Timings> run(const Case& what, uint64_t iterations) override;

 private:
  Result<std::string> read_line();
  Status write_line(std::string line);
  Status closed();

  Link link_;
  std::string buffered_;
};

}  // namespace floe::bench
