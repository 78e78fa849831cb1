// A program for Debian's libgloo: every algorithm of Gloo, of both kinds, on some ranks as processes. Each
// rank writes what it got to <folder>/<rank>; comparing these compares transports. Built twice: knowing
// nothing of floe, and with FLOE_TEST_LINKED, linked with floe::gloo.
//
//   libgloo_program <folder> <rank> <size> collectives | timeouts | forever
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/barrier_all_to_one.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/pairwise_exchange.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#ifdef FLOE_TEST_LINKED
#include <floe/gloo.h>
#include <gloo/transport/device.h>
#else
#include <gloo/transport/tcp/device.h>
#endif

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Floats = std::vector<float>;
using Millis = std::chrono::milliseconds;

struct Results {
  std::string folder;
  std::ofstream file;
  void keep(const std::string& name, const Floats& values) {
    file << name << ' ' << values.size() << '\n';
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
};

// Before connections are closed: over Gloo's tcp a rank that closes with something unread resets them, and
// what others have not read yet is lost.
void wait_for_all(const Results& results, const Context& context) {
  gloo::rendezvous::FileStore store(results.folder);
  std::vector<std::string> all;
  for (int rank = 0; rank < context->size; ++rank) all.push_back("done" + std::to_string(rank));
  store.set(all[static_cast<size_t>(context->rank)], {'1'});
  store.wait(all, Millis(30'000));
}

Floats data(size_t count, int rank) {
  std::mt19937 generator(static_cast<unsigned>(1000 * count + static_cast<size_t>(rank)));
  std::normal_distribution<float> normal;
  Floats values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

void sum(void* c, const void* a, const void* b, size_t n) {
  gloo::sum<float>(static_cast<float*>(c), static_cast<const float*>(a), static_cast<const float*>(b), n);
}

// The older kind: an object bound to its memory, run as often as wanted.
template <class Algorithm>
void run_bound(Results& results, const Context& context, const std::string& name, size_t count) {
  Floats values = data(count, context->rank);
  Algorithm algorithm(context, std::vector<float*>{values.data()}, static_cast<int>(count));
  for (int round = 0; round < 3; ++round) algorithm.run();
  results.keep(name + ' ' + std::to_string(count), values);
}

// Without AllreduceBcube: its results differ from run to run over tcp, too.
void bound(Results& results, const Context& context, size_t count) {
  run_bound<gloo::AllreduceRing<float>>(results, context, "AllreduceRing", count);
  run_bound<gloo::AllreduceRingChunked<float>>(results, context, "AllreduceRingChunked", count);
  run_bound<gloo::AllreduceHalvingDoubling<float>>(results, context, "AllreduceHalvingDoubling", count);
  const auto size = static_cast<size_t>(context->size);
  Floats in = data(count, context->rank), all(count * size);
  gloo::AllgatherRing<float>(context, {in.data()}, all.data(), static_cast<int>(count)).run();
  results.keep("AllgatherRing", all);
  gloo::BroadcastOneToAll<float>(context, {in.data()}, static_cast<int>(count), context->size - 1).run();
  results.keep("BroadcastOneToAll", in);
  if ((context->size & (context->size - 1)) == 0) {
    Floats scattered = data(count, context->rank);
    std::vector<int> counts(size, static_cast<int>(count / size));
    counts[0] += static_cast<int>(count % size);
    gloo::ReduceScatterHalvingDoubling<float>(context, {scattered.data()}, static_cast<int>(count), counts)
        .run();
    scattered.resize(static_cast<size_t>(counts[static_cast<size_t>(context->rank)]));
    results.keep("ReduceScatterHalvingDoubling", scattered);
  }
  gloo::BarrierAllToAll(context).run();
  gloo::BarrierAllToOne(context).run();
}

void reductions(Results& results, const Context& context, size_t count, uint32_t tag) {
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  for (const auto algorithm : {Algorithm::RING, Algorithm::BCUBE}) {
    Floats in = data(count, context->rank), out(count);
    gloo::AllreduceOptions options(context);
    options.setAlgorithm(algorithm);
    options.setInput(in.data(), count);
    options.setOutput(out.data(), count);
    options.setReduceFunction(sum);
    options.setMaxSegmentSize(64 << 10);
    options.setTag(tag);
    gloo::allreduce(options);
    results.keep("allreduce", out);
  }
  Floats in = data(count, context->rank), out(count);
  gloo::ReduceOptions options(context);
  options.setInput(in.data(), count);
  options.setOutput(out.data(), count);
  options.setRoot(context->size - 1);
  options.setReduceFunction(sum);
  options.setTag(tag);
  gloo::reduce(options);
  results.keep("reduce", context->rank == context->size - 1 ? out : Floats());
}

void movements(Results& results, const Context& context, size_t count, uint32_t tag) {
  const auto size = static_cast<size_t>(context->size), rank = static_cast<size_t>(context->rank);
  const Floats own = data(count, context->rank);
  {
    Floats values = own;
    gloo::BroadcastOptions options(context);
    options.setOutput(values.data(), count);
    options.setRoot(0);
    options.setTag(tag);
    gloo::broadcast(options);
    results.keep("broadcast", values);
  }
  {
    Floats in = own, out(count * size);
    gloo::AllgatherOptions options(context);
    options.setInput(in.data(), count);
    options.setOutput(out.data(), out.size());
    options.setTag(tag);
    gloo::allgather(options);
    results.keep("allgather", out);
  }
  {
    std::vector<size_t> counts(size);
    std::iota(counts.begin(), counts.end(), count);
    Floats in = data(counts[rank], context->rank),
           out(std::accumulate(counts.begin(), counts.end(), size_t{0}));
    gloo::AllgathervOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), counts);
    options.setTag(tag);
    gloo::allgatherv(options);
    results.keep("allgatherv", out);
  }
  {
    Floats in = own, out(rank == 0 ? count * size : 0);
    gloo::GatherOptions options(context);
    options.setInput(in.data(), count);
    if (rank == 0) options.setOutput(out.data(), out.size());
    options.setRoot(0);
    options.setTag(tag);
    gloo::gather(options);
    results.keep("gather", out);
  }
  {
    Floats in = data(count * size, 0), out(count);
    std::vector<float*> parts(size);
    for (size_t i = 0; i < size; ++i) parts[i] = in.data() + i * count;
    gloo::ScatterOptions options(context);
    if (rank == 0) options.setInputs(parts, count);
    options.setOutput(out.data(), count);
    options.setRoot(0);
    options.setTag(tag);
    gloo::scatter(options);
    results.keep("scatter", out);
  }
  {
    Floats in = data(count * size, context->rank), out(count * size);
    gloo::AlltoallOptions options(context);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), out.size());
    options.setTag(tag);
    gloo::alltoall(options);
    results.keep("alltoall", out);
  }
  {
    // Rank a sends a + b elements to rank b: some send none.
    std::vector<int64_t> counts(size);
    for (size_t peer = 0; peer < size; ++peer) counts[peer] = static_cast<int64_t>(rank + peer);
    const auto total = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    Floats in = data(total, context->rank), out(total);
    gloo::AlltoallvOptions options(context);
    options.setInput(in.data(), counts);
    options.setOutput(out.data(), counts);
    options.setTag(tag);
    gloo::alltoallv(options);
    results.keep("alltoallv", out);
  }
  gloo::BarrierOptions options(context);
  options.setTag(tag);
  gloo::barrier(options);
}

// A second context that is connected through the first one's pairs.
void factory(Results& results, const Context& context, std::shared_ptr<gloo::transport::Device> device) {
  gloo::rendezvous::ContextFactory made(context);
  const auto child = std::static_pointer_cast<gloo::rendezvous::Context>(made.makeContext(device));
  run_bound<gloo::AllreduceRing<float>>(results, child, "ContextFactory", 1001);
  wait_for_all(results, context);
}

void collectives(Results& results, const Context& context,
                 const std::shared_ptr<gloo::transport::Device>& device) {
  uint32_t tag = 1;
  for (const size_t count : {size_t{1}, size_t{1001}, size_t{300'007}}) {
    bound(results, context, count);
    reductions(results, context, count, tag++);
    movements(results, context, count, tag++);
  }
  if (context->size > 1) factory(results, context, device);
}

template <class Action>
void attempt(const char* what, Action&& action) {
  try {
    action();
    std::cout << what << ": nothing" << std::endl;
  } catch (const gloo::IoException& error) {
    std::cout << what << ": IoException: " << error.what() << std::endl;
  }
}

// Rank 0 waits for what nobody does, each in a context of its own: a timeout ends it.
void timeouts(const std::vector<Context>& contexts) {
  if (contexts[0]->rank == 0) {
    Floats values(1);
    attempt("recv", [&] {
      const auto buffer = contexts[0]->createUnboundBuffer(values.data(), sizeof(float));
      buffer->recv(1, 5);
      buffer->waitRecv(Millis(200));
    });
    attempt("bound recv",
            [&] { contexts[1]->getPair(1)->createRecvBuffer(5, values.data(), sizeof(float))->waitRecv(); });
    attempt("barrier", [&] {
      gloo::BarrierOptions options(contexts[2]);
      options.setTimeout(Millis(200));
      gloo::barrier(options);
    });
    std::cout << "waited" << std::endl;
  }
  gloo::BarrierOptions options(contexts[3]);
  gloo::barrier(options);
}

void forever(const Context& context) {
  Floats values(1000);
  gloo::AllreduceRing<float> algorithm(context, {values.data()}, 1000);
  algorithm.run();
  std::cout << "started" << std::endl;
  attempt("run", [&] {
    while (true) algorithm.run();
  });
}

std::shared_ptr<gloo::transport::Device> create_device() {
#ifdef FLOE_TEST_LINKED
  return floe::create_gloo_device("lo");
#else
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  return gloo::transport::tcp::CreateDevice(attributes);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::string folder = argv[1], mode = argv[4];
  const int rank = std::stoi(argv[2]), size = std::stoi(argv[3]);
  auto device = create_device();
  std::cout << "device " << device->str() << std::endl;
  std::vector<Context> contexts;
  for (int i = 0; i < (mode == "timeouts" ? 4 : 1); ++i) {
    const std::string keys = folder + "/store" + std::to_string(i);
    std::filesystem::create_directories(keys);
    gloo::rendezvous::FileStore store(keys);
    contexts.push_back(std::make_shared<gloo::rendezvous::Context>(rank, size));
    contexts.back()->setTimeout(i == 1 ? Millis(300) : Millis(30'000));
    contexts.back()->connectFullMesh(store, device);
  }
  Results results{folder, std::ofstream(folder + "/" + std::to_string(rank), std::ios::binary)};
  if (mode == "collectives")
    collectives(results, contexts[0], device);
  else if (mode == "timeouts")
    timeouts(contexts);
  else
    forever(contexts[0]);
  return results.file.flush() ? 0 : 1;
}
