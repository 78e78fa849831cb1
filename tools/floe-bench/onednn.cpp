#include "onednn.h"

#ifdef FLOE_BENCH_ONEDNN
#include <dlfcn.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>
#include <vector>
#endif

#include "base/types.h"

namespace floe::bench {

#ifdef FLOE_BENCH_ONEDNN
namespace {

std::optional<dnnl::memory::data_type> onednn_type(int type) {
  using Type = dnnl::memory::data_type;
  switch (type) {
    case FLOE_FLOAT32: return Type::f32;
    case FLOE_FLOAT16: return Type::f16;
    case FLOE_BFLOAT16: return Type::bf16;
    case FLOE_INT8: return Type::s8;
    case FLOE_UINT8: return Type::u8;
    case FLOE_INT32: return Type::s32;
    default: return std::nullopt;
  }
}

// oneDNN has no call for it: it takes OpenMP's count, which is fixed when the runtime is loaded.
void use_one_thread() {
  if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
}

}  // namespace

Result<std::function<void()>> onednn_sum(int type, uint64_t count, void* a, void* b, void* dst) {
  const auto data_type = onednn_type(type);
  if (!data_type) return error(FLOE_ERR_UNSUPPORTED, "-");
  use_one_thread();
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const dnnl::memory::desc shape({static_cast<dnnl::memory::dim>(count)}, *data_type,
                                   dnnl::memory::format_tag::a);
    const dnnl::sum::primitive_desc description({1.0f, 1.0f}, {shape, shape}, engine);
    const std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_MULTIPLE_SRC, dnnl::memory(shape, engine, a)},
        {DNNL_ARG_MULTIPLE_SRC + 1, dnnl::memory(shape, engine, b)},
        {DNNL_ARG_DST, dnnl::memory(shape, engine, dst)}};
    return std::function<void()>(
        [sum = dnnl::sum(description), stream = dnnl::stream(engine), arguments]() mutable {
          sum.execute(stream, arguments);
          stream.wait();
        });
  } catch (const dnnl::error&) {
    return error(FLOE_ERR_UNSUPPORTED, "-");
  }
}
#else
Result<std::function<void()>> onednn_sum(int, uint64_t, void*, void*, void*) {
  return error(FLOE_ERR_UNSUPPORTED, "not built");
}
#endif

}  // namespace floe::bench
