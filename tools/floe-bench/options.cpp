#include "options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/types.h"

namespace floe::bench {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
constexpr uint32_t kMaxRanks = 1024;
constexpr double kMostSeconds = 300;  // a fifth of them is a block's share at most

constexpr std::string_view kFooter = R"(
Each call is timed alone, with the cost of reading the clock taken off, and with new data in the send
buffer; a block of calls begins with one that is checked and not timed, a barrier, and up to eight that do not
count, while the caches hold another library's data. min, p50, mean and p99 are over a rank's other calls in
the blocks of the commonest placement state, each of them that of the rank where it is largest. The state
(near: the two cores share a cache; far: they don't; smt: they are threads of one core) is probed before and
after each block by an exchange of flags and a read between the cores. algbw = size / time, busbw as in
nccl-tests, time = mean.
Blocks of the peers and of floe alternate; ratio = a peer's p50 / floe's. "-": the library has no such form
or type. tools/dev peers installs the peers.)";

// Variables by which a launcher tells a process its rank.
constexpr std::array kLauncherRank = {"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};

bool under_launcher() {
  for (const char* name : kLauncherRank)
    if (std::getenv(name)) return true;
  return false;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& op : operation_table()) names.emplace_back(op.name);
  return names;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  names.reserve(kTypes);
  for (int type = 0; type < kTypes; ++type) names.emplace_back(type_name(type));
  return names;
}

[[noreturn]] void wrong(std::string_view option, const std::string& why) {
  throw CLI::ValidationError(std::string(option), why);
}

const Operation* parse_op(const std::string& name) {
  if (const Operation* op = find_operation(name)) return op;
  wrong("--op",
        fmt::format("'{}' is not an operation: use all or some of {}", name, fmt::join(op_names(), ", ")));
}

floe_type_t parse_type(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, floe_type_t>, 4> short_names = {
      {{"fp32", FLOE_FLOAT32}, {"fp64", FLOE_FLOAT64}, {"fp16", FLOE_FLOAT16}, {"bf16", FLOE_BFLOAT16}}};
  for (const auto& [text, type] : short_names)
    if (name == text) return type;
  for (int type = 0; type < kTypes; ++type)
    if (name == type_name(type)) return static_cast<floe_type_t>(type);
  wrong("--dtype", fmt::format("'{}' is not an element type: use {}, or fp32, fp64, fp16, bf16", name,
                               fmt::join(type_names(), ", ")));
}

// "8", "64K", "1M", "2G".
uint64_t parse_size(const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  constexpr std::string_view units = "KMG";
  const size_t unit = rest + 1 == end ? units.find(*rest) : units.npos;
  const int shift = unit == units.npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  if (problem != std::errc() || (rest != end && shift == 0) || number == 0 || number > kMaxBytes >> shift)
    wrong("--sizes",
          fmt::format("'{}' is not a size: use bytes from 1 to 1024G, such as 8, 64K, 1M or 2G", text));
  return number << shift;
}

// Where protocols meet, and as far as the caches of a core.
std::vector<uint64_t> sizes_to_tune() {
  return {8, 64, 256, 512, 1 << 10, 1536, 2 << 10, 3 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10};
}

std::vector<uint64_t> default_sizes() {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

struct Words {
  std::vector<std::string> ops, types = {"float32", "bfloat16"}, sizes;
  std::vector<std::string> peers;
  bool join = false, in_place = false, out_of_place = false;
};

void check_sizes_fit(const Options& options) {
  for (const auto type : options.types)
    for (const uint64_t bytes : options.sizes)
      if (bytes % type_size(type) != 0)
        wrong("--sizes", fmt::format("{} bytes are not a whole number of {}: use a multiple of {}", bytes,
                                     type_name(type), type_size(type)));
}

void interpret(Words& words, bool ranks_given, Options& options) {
  if (options.tune) {  // together they take every protocol, whatever the number of ranks
    if (words.ops.empty()) words.ops = {"all_reduce", "all_gather", "all_to_all"};
    words.types = {"float32"};
    words.in_place = !words.out_of_place;
    options.columns = Columns::kTimes;
  }
  if (words.ops.empty()) words.ops = {"all_reduce"};
  if (words.ops == std::vector<std::string>{"all"})
    for (const auto& op : operation_table()) options.ops.push_back(&op);
  else
    for (const auto& name : words.ops) options.ops.push_back(parse_op(name));
  for (const auto& name : words.types) options.types.push_back(parse_type(name));
  for (const auto& text : words.sizes) options.sizes.push_back(parse_size(text));
  if (options.kernel && options.sizes.empty()) options.sizes = {256 << 10, 64 << 20};
  if (options.sizes.empty()) options.sizes = options.tune ? sizes_to_tune() : default_sizes();
  check_sizes_fit(options);
  if (!std::isfinite(options.seconds)) wrong("--seconds", "use a number");
  if (options.manner.cold && kCanFlush == 0) wrong("--cold", "not known how this processor flushes a line");
  auto peers = choose_peers(words.peers, options.places);
  if (!peers.ok()) wrong("--peer", peers.status().message());
  options.peers = *peers;
  if (words.in_place) options.place = Place::kIn;
  if (words.out_of_place) options.place = Place::kOut;
  options.launch = !words.join && (ranks_given || !under_launcher());
}

void add_what(CLI::App& app, Words& words, Options& options) {
  app.add_option("--op", words.ops, fmt::format("all, or some of {}", fmt::join(op_names(), ", ")))
      ->delimiter(',')
      ->default_str("all_reduce");
  app.add_option("--dtype", words.types, fmt::format("some of {}", fmt::join(type_names(), ", ")))
      ->delimiter(',')
      ->default_str("float32,bfloat16");
  app.add_option("--sizes", words.sizes, "Bytes, such as 8,64K,1M; default 8 to 64M, doubling")
      ->delimiter(',');
  auto* in_place =
      app.add_flag("--in-place", words.in_place,
                   "Only calls that send and receive in one buffer; default: in one, and in two. "
                   "An operation with one form is measured in that");
  app.add_flag("--out-of-place", words.out_of_place, "Only calls with two buffers")->excludes(in_place);
  app.add_flag("--cpu", options.manner.cpu,
               "Also measures the CPU time of a call, of all threads of a rank, for --json and --csv");
  app.add_flag("--cold", options.manner.cold, "Takes the buffers out of the caches before each call");
  app.add_flag("--touch", options.manner.touch,
               "Counts writing what is sent and reading what came as part of the call");
  app.add_flag("--heap", options.manner.heap, "Buffers of floe_mem_alloc; of MPI_Alloc_mem for MPI peers");
  app.add_flag("--ordinary", options.ordinary, "Measures floe on ordinary buffers, too, block by block");
  app.add_option(
         "--provider", options.providers,
         "Measures, too, floe over these providers of libfabric instead of shared memory, such as shm,tcp")
      ->delimiter(',');
  app.add_flag(
      "--roofline", options.roofline,
      "Measures, too, how long each rank's share of an all_reduce's reading and writing takes in its own "
      "memory alone");
  app.add_option("--offset", options.manner.offset, "Bytes by which buffers miss the start of a page")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 20));
}

void add_output(CLI::App& app, Options& options) {
  const std::map<std::string, Columns> columns = {{"nccl", Columns::kNccl}, {"times", Columns::kTimes}};
  app.add_option("--columns", options.columns,
                 "nccl: time, algbw and busbw as nccl-tests has them; times: min, p50, mean and p99")
      ->transform(CLI::CheckedTransformer(columns).description(""))
      ->type_name("nccl|times")
      ->default_str("nccl");
  app.add_flag("--json", options.json, "One JSON object a line instead of the table");
  app.add_option("--csv", options.csv, "Also writes all figures to this file");
  app.add_option("--plot", options.plot, "Also draws time over size into this PNG file; needs matplotlib");
}

}  // namespace

Parsed parse(int argc, char** argv) {
  Options options;
  Words words;
  CLI::App app("Measures floe's collectives, and its reduction kernels, beside others.");
  app.footer(std::string(kFooter));
  add_what(app, words, options);
  add_output(app, options);
  auto* ranks = app.add_option("--ranks", options.ranks, "Local ranks to start")
                    ->check(CLI::Range(1u, kMaxRanks))
                    ->capture_default_str();
  app.add_flag(
         "--join", words.join,
         "Be a rank of the launcher that the environment describes (torchrun, mpiexec, srun); the default "
         "under a launcher without --ranks")
      ->excludes(ranks);
  auto* iterations = app.add_option("--iters", options.iterations, "Calls of each block that count")
                         ->check(CLI::Range(uint64_t{1}, uint64_t{1000000}));
  app.add_option("--seconds", options.seconds, "Time of the calls that count, of each line and library")
      ->check(CLI::Range(0.001, kMostSeconds))
      ->capture_default_str()
      ->excludes(iterations);
  auto* peer = app.add_option("--peer", words.peers,
                              fmt::format("Measures these beside floe, block by block: all that are "
                                          "installed, or some of {} (PyTorch's Gloo over floe's transport)",
                                          fmt::join(peer_names(), ", ")))
                   ->delimiter(',');
  app.add_option("--peer-dir", options.places.folder, "Where tools/dev peers has put them")
      ->default_str("build-peers");
  app.add_option("--python", options.places.python,
                 "Interpreter with torch, for gloo, gloo-floe, vllm and deepspeed")
      ->envname("FLOE_PYTHON");
  app.add_flag(
         "--tune", options.tune,
         "Measures each protocol on shared memory, fits the cost model by which floe chooses, and prints "
         "the model and its choices")
      ->excludes(peer)
      ->excludes("--json")
      ->excludes("--dtype");
  app.add_flag("--kernel", options.kernel,
               "No ranks: GB/s of the sum of two buffers for each instruction set, beside oneDNN's")
      ->excludes(peer)
      ->excludes(ranks)
      ->excludes("--csv")
      ->excludes("--plot");
  try {
    app.parse(argc, argv);
    interpret(words, ranks->count() > 0, options);
  } catch (const CLI::ParseError& problem) {
    return {std::nullopt, app.exit(problem)};
  }
  return {options, 0};
}

}  // namespace floe::bench
