#include "fabric/endpoint.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/log.h"
#include "fabric/address.h"

namespace floe::fabric {
namespace {

// `object` goes to null first, so that a failed close is not tried again.
template <class Object>
void close(Object*& object) {
  if (Object* const closing = std::exchange(object, nullptr)) ::fi_close(&closing->fid);
}

// The epoll descriptor among those that `outer`, one too, waits for; -1: there is none.
int epoll_inside(int outer) {
  std::ifstream description(fmt::format("/proc/self/fdinfo/{}", outer));
  for (std::string line; std::getline(description, line);) {
    int inner = -1;
    char name[64] = {};
    if (std::sscanf(line.c_str(), "tfd: %d", &inner) == 1 &&
        ::readlink(fmt::format("/proc/self/fd/{}", inner).c_str(), name, sizeof name - 1) > 0 &&
        std::string_view(name) == "anon_inode:[eventpoll]")
      return inner;
  }
  return -1;
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::open(const Libfabric& lib, Provider provider,
                                                 std::span<const uint16_t> ports) {
  Status opened;
  for (const uint16_t port : ports) {
    Provider one{provider.name, lib.copy(provider.info.get()), provider.address, provider.always_registers};
    std::unique_ptr<Endpoint> endpoint(new Endpoint(lib, std::move(one)));
    const bool chosen = port != 0 && endpoint->set_port(port);
    opened = endpoint->open_objects();
    if (opened.ok()) return endpoint;
    if (!chosen || !endpoint->port_taken_) return opened;
  }
  return opened.in("no port of FLOE_PORT_RANGE is free; give more, two for each rank of a host");
}

// False: its addresses have none.
bool Endpoint::set_port(uint16_t port) {
  fi_info& info = *provider_.info;
  if (info.src_addr && info.addr_format == FI_SOCKADDR_IN && info.src_addrlen >= sizeof(sockaddr_in))
    static_cast<sockaddr_in*>(info.src_addr)->sin_port = htons(port);
  else if (info.src_addr && info.addr_format == FI_SOCKADDR_IN6 && info.src_addrlen >= sizeof(sockaddr_in6))
    static_cast<sockaddr_in6*>(info.src_addr)->sin6_port = htons(port);
  else
    return false;
  return true;
}

// An endpoint before what it is bound to and what is registered for it, those before their domain, that
// before its fabric.
Endpoint::~Endpoint() {
  close(endpoint_);
  registrations_.close();
  close(peers_);
  close(queue_);
  close(domain_);
  close(fabric_);
}

Status Endpoint::failed(std::string_view what, int code) const {
  return error(FLOE_ERR_TRANSPORT, "libfabric {}, provider {}: {}: {} ({})", lib_.version(), provider_.name,
               what, lib_.error_text(code), code);
}

Status Endpoint::open_objects() {
  fi_info* const info = provider_.info.get();
  if (int code = lib_.open_fabric(info->fabric_attr, &fabric_)) return failed("fi_fabric", code);
  if (int code = ::fi_domain(fabric_, info, &domain_, nullptr)) return failed("fi_domain", code);
  FLOE_TRY(open_queue());
  fi_av_attr av{};
  av.type = info->domain_attr->av_type;
  if (int code = ::fi_av_open(domain_, &av, &peers_, nullptr)) return failed("fi_av_open", code);
  FLOE_TRY(open_endpoint());
  registrations_ = Registrations(domain_, endpoint_, info->domain_attr->mr_mode, provider_.always_registers);
  char bytes[EndpointAddress::kMaxName];
  size_t size = sizeof bytes;
  if (int code = ::fi_getname(&endpoint_->fid, bytes, &size)) return failed("fi_getname", code);
  name_.assign(bytes, size);
  gate_.shut(name_, name_format());
  return {};
}

Status Endpoint::open_endpoint() {
  // libfabric's shm gives an endpoint a file named by process and number. One that a killed process with this
  // one's id has left behind is in the way; the next number's is not.
  constexpr int kAttempts = 16;
  for (int attempt = 1;; ++attempt) {
    if (int code = ::fi_endpoint(domain_, provider_.info.get(), &endpoint_, nullptr)) {
      port_taken_ = code == -FI_EADDRINUSE;
      return failed("fi_endpoint", code);
    }
    if (int code = ::fi_ep_bind(endpoint_, &peers_->fid, 0))
      return failed("fi_ep_bind to the address vector", code);
    if (int code = ::fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV))
      return failed("fi_ep_bind to the completion queue", code);
    const int code = ::fi_enable(endpoint_);
    if (code == 0) return {};
    port_taken_ = code == -FI_EADDRINUSE;
    if (code != -FI_EBUSY || attempt == kAttempts) return failed("fi_enable", code);
    close(endpoint_);
  }
}

Status Endpoint::open_queue() {
  const fi_info& info = *provider_.info;
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_MSG;
  attributes.size = std::max<size_t>(info.tx_attr->size + info.rx_attr->size, 1024);
  // shm gives out a descriptor, and then fi_trywait on it crashes (1.17): it is polled.
  const bool can_wait = provider_.name != "shm";
  attributes.wait_obj = FI_WAIT_FD;
  if (can_wait && ::fi_cq_open(domain_, &attributes, &queue_, nullptr) == 0 &&
      ::fi_control(&queue_->fid, FI_GETWAIT, &wait_fd_) == 0) {
    // 1.17's `net` makes its descriptor readable with each completion, and only a blocking read takes that
    // back. The one inside is that of its sockets; what has completed already, prepare_wait() finds.
    if (provider_.name == "net") wait_fd_ = epoll_inside(wait_fd_);
    return {};
  }
  close(queue_);
  wait_fd_ = -1;
  attributes.wait_obj = FI_WAIT_NONE;
  if (int code = ::fi_cq_open(domain_, &attributes, &queue_, nullptr)) return failed("fi_cq_open", code);
  return {};
}

Result<uint64_t> Endpoint::insert(const std::string& name) {
  // The provider reads as many bytes as the format has, whatever the peer sent.
  const bool is_text = name_format() == FI_ADDR_STR;
  if (is_text ? name.back() != '\0' : name.size() != name_.size())
    return error(FLOE_ERR_TRANSPORT, "its endpoint name has {} bytes, which no name of provider {} has",
                 name.size(), provider_.name);
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  const int inserted = ::fi_av_insert(peers_, name.data(), 1, &address, 0, nullptr);
  if (inserted != 1) return failed("fi_av_insert", inserted < 0 ? inserted : -FI_EINVAL);
  gate_.admit(name);
  return address;
}

ssize_t Endpoint::receive(Slot& slot, size_t bytes) {
  return ::fi_recv(endpoint_, slot.data, bytes, slot.descriptor, FI_ADDR_UNSPEC, &slot.context);
}

ssize_t Endpoint::send(uint64_t address, Slot& slot, size_t bytes) {
  return ::fi_send(endpoint_, slot.data, bytes, slot.descriptor, address, &slot.context);
}

Status Endpoint::register_memory(void* base, size_t bytes, void** descriptor) {
  if (int code = registrations_.add(base, bytes, descriptor))
    return failed(fmt::format("registering {} KiB of packet buffers (ulimit -l limits it)", bytes >> 10),
                  code);
  return {};
}

void Endpoint::cancel(Slot& slot) { ::fi_cancel(&endpoint_->fid, &slot.context); }

std::span<const fi_cq_msg_entry> Endpoint::read(ssize_t* code) {
  ssize_t count = std::exchange(read_ahead_, 0);
  if (count == 0) count = ::fi_cq_read(queue_, batch_.data(), batch_.size());
  *code = count < 0 ? count : 0;
  return {batch_.data(), count < 0 ? 0 : static_cast<size_t>(count)};
}

Endpoint::Failure Endpoint::take_error() {
  fi_cq_err_entry entry{};
  if (const ssize_t code = ::fi_cq_readerr(queue_, &entry, 0); code < 0)
    return {nullptr, static_cast<int>(-code), lib_.error_text(static_cast<int>(code))};
  Failure failure{entry.op_context ? &Slot::of(entry.op_context) : nullptr, entry.err,
                  lib_.error_text(entry.err)};
  char text[128] = "";
  if (const char* const detail =
          ::fi_cq_strerror(queue_, entry.prov_errno, entry.err_data, text, sizeof text);
      entry.prov_errno != 0 && detail && failure.text != detail)
    failure.text += fmt::format(" ({})", detail);
  return failure;
}

bool Endpoint::prepare_wait() {
  if (read_ahead_ != 0) return false;
  if (wait_fd_ < 0) return true;  // nothing to arm: the caller polls
  if (provider_.name == "net") {
    const ssize_t count = ::fi_cq_read(queue_, batch_.data(), batch_.size());
    if (count > 0) read_ahead_ = count;
    return count == -FI_EAGAIN;
  }
  fid* const waited = &queue_->fid;
  fid* list[] = {waited};
  return ::fi_trywait(fabric_, list, 1) == 0;
}

}  // namespace floe::fabric
