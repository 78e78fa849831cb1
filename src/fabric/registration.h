// Registration of the transport's own buffers with libfabric, where the provider's mr_mode asks for it. No
// other memory is ever registered: a cache keyed on a caller's addresses goes wrong silently once they are
// unmapped.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace floe::fabric {

// Of one endpoint. It is closed after that, since its registrations may not end before, and before its
// domain.
class Registrations {
 public:
  // The bits of mr_mode that are handled. The others matter to remote access (RAW, RMA_EVENT), devices
  // (HMEM), libfabric's collectives, and memory whose pages come and go (MMU_NOTIFY): floe asks for none of
  // these.
  static constexpr int kHandled =
      FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

  Registrations() = default;
  // `mode` is what the provider has granted; `always` registers, too, what it does not ask for.
  Registrations(fid_domain* domain, fid_ep* endpoint, int mode, bool always)
      : domain_(domain), endpoint_(endpoint), mode_(mode), always_(always) {}

  // Whether every buffer that is sent or received must have a descriptor.
  bool needed() const { return always_ || (mode_ & (FI_MR_LOCAL | FI_MR_BASIC)) != 0; }
  // Whether pages must be there before they are registered.
  bool needs_pages() const { return needed() && (mode_ & (FI_MR_ALLOCATED | FI_MR_BASIC)) != 0; }

  // Registers [base, base + bytes) for sends and receives. 0 and its descriptor, or -FI_E...
  int add(void* base, size_t bytes, void** descriptor);
  void close();

 private:
  fid_domain* domain_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  int mode_ = 0;
  bool always_ = false;
  uint64_t next_key_ = 1;
  std::vector<fid_mr*> regions_;
};

}  // namespace floe::fabric
