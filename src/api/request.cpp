// floe_test, floe_wait, floe_request_*.
#include "api/api.h"

using namespace floe;
using namespace floe::api;

namespace {

// An operation that goes on, in as many words as there is memory for: another error would mean its end.
template <class Words>
floe_status_t in_progress(const Words& words) {
  try {
    return report({FLOE_IN_PROGRESS, words()});
  } catch (const std::bad_alloc&) {
    return FLOE_IN_PROGRESS;
  }
}

}  // namespace

extern "C" {

floe_status_t floe_test(floe_request_t* req) {
  return entry([&]() -> floe_status_t {
    if (const Status status = check_handle(req, "req"); !status.ok()) return report(status);
    if (!req->engine->test(*req->operation))
      return in_progress([] { return std::string("the operation is not complete yet"); });
    return report(req->operation->status());
  });
}

floe_status_t floe_wait(floe_request_t* req, uint64_t timeout_ms) {
  return entry([&]() -> floe_status_t {
    if (const Status status = check_handle(req, "req"); !status.ok()) return report(status);
    const Deadline until = timeout_ms == FLOE_NO_TIMEOUT ? Deadline::never() : Deadline::in_ms(timeout_ms);
    if (!req->engine->wait(*req->operation, until))
      return in_progress(
          [&] { return fmt::format("{} is not complete after {} ms", req->operation->title(), timeout_ms); });
    return report(req->operation->status());
  });
}

floe_status_t floe_request_on_complete(floe_request_t* req,
                                       void (*fn)(void* user, floe_status_t status, const char* message),
                                       void* user) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(req, "req"));
    if (!fn) return {FLOE_ERR_ARGUMENT, "fn is NULL"};
    const std::lock_guard guard(req->engine->lock());
    if (!req->operation->set_callback(fn, user))
      return {FLOE_ERR_ARGUMENT, "the request has a callback already"};
    return {};
  });
}

floe_status_t floe_request_info(const floe_request_t* req, floe_request_info_t* info) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(req, "req"));
    if (!info) return {FLOE_ERR_ARGUMENT, "info is NULL"};
    FLOE_TRY(check_struct(info->struct_size, sizeof(floe_request_info_t), "floe_request_info_t"));
    if (!req->operation->complete()) return {FLOE_ERR_ARGUMENT, "the request is not complete"};
    info->source = req->operation->source;
    info->bytes = req->operation->bytes;
    return {};
  });
}

floe_status_t floe_request_free(floe_request_t* req) {
  if (!req) return FLOE_OK;
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(req, "req"));
    delete req;
    return {};
  });
}

}  // extern "C"
