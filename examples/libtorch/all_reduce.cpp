// Adds one number per rank on all ranks with LibTorch, without Python. Where torch_floe is installed:
//
//   here() { python3 -c "import $1; print($1.__path__[0])"; }
//   torch=$(here torch) floe=$(here torch_floe) libs="-lfloe_torch -ltorch_cpu -lc10"
//   c++ -std=c++20 -c all_reduce.cpp -I "$torch/include" -I "$floe/include"
//   paths="-L $torch/lib -L $floe/lib -Wl,-rpath,$torch/lib:$floe/lib"
//   c++ all_reduce.o -o all_reduce $paths $libs
//   torchrun --no-python --nproc_per_node 2 ./all_reduce
#include <ATen/ATen.h>
#include <floe/torch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

static std::string from_launcher(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (!value) throw std::runtime_error(name + " is not set: start this with torchrun");
  return value;
}

// As init_process_group("floe") does in Python.
static c10::intrusive_ptr<c10d::ProcessGroup> create_group(int rank, int size) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(from_launcher("MASTER_PORT")));
  options.isServer = rank == 0 && !std::getenv("TORCHELASTIC_USE_AGENT_STORE");  // torchrun serves by itself
  options.timeout = std::chrono::seconds(20);
  const auto tcp = c10::make_intrusive<c10d::TCPStore>(from_launcher("MASTER_ADDR"), options);
  const auto store = c10::make_intrusive<c10d::PrefixStore>("libtorch", tcp);

  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  const auto backend = floe::create_backend(store, rank, size, std::chrono::seconds(20));
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  return group;
}

int main() try {
  const int rank = std::stoi(from_launcher("RANK")), size = std::stoi(from_launcher("WORLD_SIZE"));
  const auto group = create_group(rank, size);
  std::vector<at::Tensor> sum = {at::full({1000}, rank + 1, at::kBFloat16)};
  group->allreduce(sum)->wait();
  std::printf("rank %d of %d: 1 + ... + %d = %g\n", rank, size, size, sum.front()[999].item<double>());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
