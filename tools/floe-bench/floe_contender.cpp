#include "floe_contender.h"

#include <cstring>

#include "base/types.h"
#include "pattern.h"

namespace floe::bench {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

Status FloeContender::Memory::grow(size_t wanted) {
  wanted = (wanted + kPage) / kPage * kPage;
  if (wanted <= bytes) return {};
  data.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, wanted)));
  bytes = data ? wanted : 0;
  if (!data)
    return error(FLOE_ERR_SYSTEM, "no memory for a buffer of {} bytes: give smaller --sizes", wanted);
  std::memset(data.get(), 0xff, wanted);
  return {};
}

Result<Call> FloeContender::prepare(const Case& what) {
  const Operation& op = *what.op;
  const size_t part = what.count * type_size(what.type);
  if (auto status = send_.grow(op.send_all ? part * ranks_ : part); !status.ok()) return status;
  if (auto status = recv_.grow(op.recv_all ? part * ranks_ : part); !status.ok()) return status;

  Call call{comm_, send_.data.get(), recv_.data.get(), what.count, what.type, rank_, ranks_};
  if (op.in_place == InPlace::kAlways) call.send = call.recv;
  if (!what.in_place) return call;
  const size_t mine = rank_ * part;
  if (op.in_place == InPlace::kSame) call.send = call.recv;
  if (op.in_place == InPlace::kSendInRecv) call.send = recv_.data.get() + mine;
  if (op.in_place == InPlace::kRecvInSend) call.recv = send_.data.get() + mine;
  return call;
}

Result<Timings> FloeContender::run(const Case& what, uint64_t iterations) {
  const auto prepared = prepare(what);
  if (!prepared.ok()) return prepared.status();
  const Call& call = *prepared;
  const Pattern pattern(what.type, ranks_);
  const auto expected = what.op->result(call);
  const uint64_t elements = what.count * (what.op->send_all ? ranks_ : 1);

  Timings timings;
  timings.us.resize(iterations);
  for (uint64_t i = 0; i < iterations; ++i) {
    // The send buffer is not only an input: see Operation::in_place. floe may read it until the call returns.
    pattern.fill(const_cast<void*>(call.send), elements, rank_, i);
    const uint64_t begin = Ticks::now();
    const floe_status_t status = what.op->run(call);
    const uint64_t end = Ticks::now();
    if (status != FLOE_OK) return error(status, "{}: {}", floe_status_string(status), floe_last_error());
    timings.us[i] = ticks_.us(begin, end);
    if (i == 0 || i + 1 == iterations) timings.errors += pattern.errors(call.recv, expected, i);
  }
  return timings;
}

}  // namespace floe::bench
