// floe_context_*.
#include "api/api.h"
#include "reduce/reduce.h"
#include "shm/cost_model.h"

using namespace floe;
using namespace floe::api;

extern "C" {

floe_status_t floe_context_create(const floe_context_config_t* config, floe_context_t** context) {
  return entry([&]() -> Status {
    if (!context) return {FLOE_ERR_ARGUMENT, "context is NULL"};
    int32_t workers = -1;
    if (config) {
      FLOE_TRY(check_struct(config->struct_size, sizeof(floe_context_config_t), "floe_context_config_t"));
      workers = config->workers;
    }
    if (workers < -1 || workers > 1)
      return error(FLOE_ERR_ARGUMENT, "workers is {}: use 0, 1, or -1 for FLOE_WORKERS", workers);
    auto settings = Settings::from_environment();
    if (!settings.ok()) return settings.status();
    if (!settings->isa.empty()) FLOE_TRY(set_isa(settings->isa));
    FLOE_TRY(CostModel::create(settings->cost_model).status());
    if (workers >= 0) settings->set_workers(static_cast<uint32_t>(workers));
    const uint32_t count = settings->workers;
    auto engine = Engine::create(std::move(*settings), count);
    if (!engine.ok()) return engine.status();
    *context = new floe_context{std::move(*engine)};
    return {};
  });
}

floe_status_t floe_context_destroy(floe_context_t* context) {
  return entry([&]() -> Status {
    FLOE_TRY(check_handle(context, "context"));
    size_t left = 0, creating = 0;
    {
      const std::lock_guard guard(context->engine->lock());
      left = context->engine->groups();
      creating = context->creating;
    }
    if (creating != 0)
      return error(FLOE_ERR_ARGUMENT, "other threads are creating communicators of the context: {}",
                   creating);
    if (left != 0)
      return error(FLOE_ERR_ARGUMENT, "the context has communicators that are not destroyed: {}", left);
    context->engine->stop();
    delete context;
    return {};
  });
}

}  // extern "C"
