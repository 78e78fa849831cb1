// An open libfabric endpoint with its completion queue and address vector; one thread at a time.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <memory>
#include <span>
#include <string>

#include "fabric/buffers.h"
#include "fabric/libfabric.h"
#include "fabric/listener_gate.h"
#include "fabric/provider.h"
#include "fabric/registration.h"

namespace floe::fabric {

class Endpoint {
 public:
  // At the first of these ports that is free, if the provider has ports; 0: any.
  static Result<std::unique_ptr<Endpoint>> open(const Libfabric& lib, Provider provider,
                                                std::span<const uint16_t> ports);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Libfabric& lib() const { return lib_; }
  const std::string& provider() const { return provider_.name; }
  const std::string& name() const { return name_; }  // fi_getname's bytes
  std::string_view device() const { return provider_.info->domain_attr->name; }
  const std::string& host_address() const { return provider_.address; }
  uint32_t name_format() const { return provider_.info->addr_format; }

  Result<uint64_t> insert(const std::string& name);

  // What must be registered before it is sent from or received into.
  const Registrations& registrations() const { return registrations_; }
  Status register_memory(void* base, size_t bytes, void** descriptor);

  // 0, -FI_EAGAIN (not now) or another -FI_E...
  ssize_t receive(Slot& slot, size_t bytes);
  ssize_t send(uint64_t address, Slot& slot, size_t bytes);
  void cancel(Slot& slot);

  // The completions that there are, at most a batch; *code is 0, -FI_EAGAIN (none) or an error, of which
  // -FI_EAVAIL means: take_error().
  std::span<const fi_cq_msg_entry> read(ssize_t* code);
  struct Failure {
    Slot* slot = nullptr;  // null if the provider does not say
    int code = 0;          // FI_E...
    std::string text;
  };
  Failure take_error();

  // FLOE_ERR_TRANSPORT with the provider's name and the code's text.
  Status failed(std::string_view what, int code) const;

  int wait_fd() const { return wait_fd_; }
  // False if completions may have arrived: read() them instead of sleeping.
  bool prepare_wait();

  // A refused send (-FI_EAGAIN) means that there is no connection, not that there is no room.
  bool refuses_only_unconnected() const { return is_sockets(); }
  // What no receive is posted for waits in the socket; it is not copied meanwhile.
  bool waits_for_receives() const { return is_sockets(); }
  // Closing with operations outstanding crashes.
  bool must_be_idle_to_close() const { return provider_.name.ends_with(";ofi_rxm"); }

 private:
  Endpoint(const Libfabric& lib, Provider provider) : lib_(lib), provider_(std::move(provider)) {}
  bool is_sockets() const { return provider_.name == "net" || provider_.name == "tcp"; }
  Status open_objects();
  bool set_port(uint16_t port);
  Status open_queue();
  Status open_endpoint();

  static constexpr size_t kBatch = 16;

  Libfabric lib_;
  Provider provider_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* peers_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  Registrations registrations_;
  std::string name_;
  ListenerGate gate_;
  int wait_fd_ = -1;
  bool port_taken_ = false;
  std::array<fi_cq_msg_entry, kBatch> batch_{};
  ssize_t read_ahead_ = 0;  // entries of batch_ that prepare_wait() has read
};

}  // namespace floe::fabric
