#include "fabric/registration.h"

#include <rdma/fi_endpoint.h>

namespace floe::fabric {

int Registrations::add(void* base, size_t bytes, void** descriptor) {
  // Without FI_MR_PROV_KEY the user gives each region of a domain a key of its own. With FI_MR_VIRT_ADDR
  // peers would address it by pointers, without by offsets: nobody addresses it.
  constexpr int kKeyIsTheProviders = FI_MR_PROV_KEY | FI_MR_BASIC;
  const uint64_t key = (mode_ & kKeyIsTheProviders) != 0 ? 0 : next_key_++;
  fid_mr* region = nullptr;
  if (const int code = ::fi_mr_reg(domain_, base, bytes, FI_SEND | FI_RECV, /*offset=*/0, key, /*flags=*/0,
                                   &region, nullptr))
    return code;
  regions_.push_back(region);
  if ((mode_ & FI_MR_ENDPOINT) != 0) {
    if (const int code = ::fi_mr_bind(region, &endpoint_->fid, 0)) return code;
    if (const int code = ::fi_mr_enable(region)) return code;
  }
  *descriptor = ::fi_mr_desc(region);
  return 0;
}

void Registrations::close() {
  for (fid_mr* const region : regions_) ::fi_close(&region->fid);
  regions_.clear();
}

}  // namespace floe::fabric
