#include "buffers.h"

#include <cstdlib>
#include <cstring>

namespace floe::bench {
namespace {

constexpr size_t kPage = 4096;

size_t up_to_page(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

std::byte* Buffers::grow(Memory& memory, size_t bytes, const Manner& manner) {
  const size_t wanted = up_to_page(bytes + manner.offset + 1) + (manner.heap ? kPage : 0);
  if (wanted > memory.bytes || manner.heap != memory.heap) {
    memory.data.reset();
    const bool heap = manner.heap;
    void* data = heap ? heap_.allocate(wanted) : std::aligned_alloc(kPage, wanted);
    memory.data = {data, heap ? heap_.release : std::function<void(void*)>(std::free)};
    memory.bytes = data ? wanted : 0;
    memory.heap = heap;
    if (!data) return nullptr;
    std::memset(data, 0xff, wanted);
  }
  const auto start = reinterpret_cast<uintptr_t>(memory.data.get());
  return static_cast<std::byte*>(memory.data.get()) + (up_to_page(start) - start) + manner.offset;
}

std::optional<Call> Buffers::prepare(const Case& what, uint32_t rank, uint32_t ranks) {
  const Operation& op = *what.op;
  const size_t part = what.count * type_size(what.type);
  const uint32_t send_parts = op.send_parts(rank, ranks), recv_parts = op.recv_parts(rank, ranks);
  std::byte* send = grow(send_, part * send_parts, what.manner);
  std::byte* recv = grow(recv_, part * recv_parts, what.manner);
  if (!send || !recv) return std::nullopt;

  Call call{send, recv, what.count, what.type, rank, ranks, what.in_place};
  if (!what.in_place) return call;
  if (op.in_place == InPlace::kSame || op.in_place == InPlace::kAlways) call.send = call.recv;
  // Of gather and scatter only the root's block is in place.
  if (op.in_place == InPlace::kSendInRecv && recv_parts == ranks) call.send = recv + rank * part;
  if (op.in_place == InPlace::kRecvInSend && send_parts == ranks) call.recv = send + rank * part;
  return call;
}

}  // namespace floe::bench
