#include "options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/types.h"

namespace floe::bench {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
constexpr uint32_t kMaxRanks = 1024;

constexpr std::string_view kFooter = R"(
Each call is timed alone, with the cost of reading the clock taken off, and with new data in the send
buffer; ranks enter a block of calls after a barrier. A call takes as long as on its slowest rank: p50, mean,
p99 and min are over the calls of the blocks in the commonest placement state. The state (near: the two cores
share a cache; far: they don't; smt: they are threads of one core) is probed before and after each block by
an exchange of flags and a read between the cores. algbw = size / time, busbw as in nccl-tests, time = mean.
Blocks of the peer and of floe alternate.)";

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

std::vector<uint64_t> default_sizes() {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

struct Words {
  std::vector<std::string> ops = {"all_reduce"}, types = {"float32", "bfloat16"}, sizes;
  std::string peer;
  bool join = false;
};

void check_sizes_fit(const Options& options) {
  for (const auto type : options.types)
    for (const uint64_t bytes : options.sizes)
      if (bytes % type_size(type) != 0)
        wrong("--sizes", fmt::format("{} bytes are not a whole number of {}: use a multiple of {}", bytes,
                                     type_name(type), type_size(type)));
}

void interpret(const Words& words, bool ranks_given, Options& options) {
  if (words.ops == std::vector<std::string>{"all"})
    for (const auto& op : operation_table()) options.ops.push_back(&op);
  else
    for (const auto& name : words.ops) options.ops.push_back(parse_op(name));
  for (const auto& name : words.types) options.types.push_back(parse_type(name));
  for (const auto& text : words.sizes) options.sizes.push_back(parse_size(text));
  if (options.kernel && options.sizes.empty()) options.sizes = {256 << 10, 64 << 20};
  if (options.sizes.empty()) options.sizes = default_sizes();
  check_sizes_fit(options);
  if (!std::isfinite(options.seconds)) wrong("--seconds", "use a number");
  if (options.in_place)
    for (const Operation* op : options.ops)
      if (op->in_place == InPlace::kNever) wrong("--in-place", fmt::format("{} has no such form", op->name));
  if (!words.peer.empty() && words.peer != "gloo")
    wrong("--peer", fmt::format("'{}' is not a peer: use gloo", words.peer));
  options.gloo = words.peer == "gloo";
  options.launch = !words.join && (ranks_given || !under_launcher());
}

}  // namespace

Parsed parse(int argc, char** argv) {
  Options options;
  Words words;
  CLI::App app("Measures floe's collectives, and its reduction kernels, beside others.");
  app.footer(std::string(kFooter));
  app.add_option("--op", words.ops, fmt::format("all, or some of {}", fmt::join(op_names(), ", ")))
      ->delimiter(',')
      ->default_str("all_reduce");
  app.add_option("--dtype", words.types, fmt::format("some of {}", fmt::join(type_names(), ", ")))
      ->delimiter(',')
      ->default_str("float32,bfloat16");
  app.add_option("--sizes", words.sizes, "Bytes, such as 8,64K,1M; default 8 to 64M, doubling")
      ->delimiter(',');
  auto* ranks = app.add_option("--ranks", options.ranks, "Local ranks to start")
                    ->check(CLI::Range(1u, kMaxRanks))
                    ->capture_default_str();
  app.add_flag(
         "--join", words.join,
         "Be a rank of the launcher that the environment describes (torchrun, mpiexec, srun); the default "
         "under a launcher without --ranks")
      ->excludes(ranks);
  app.add_flag("--in-place", options.in_place, "Send and receive in one buffer");
  app.add_flag("--json", options.json, "One JSON object a line instead of the table");
  auto* iterations = app.add_option("--iters", options.iterations, "Calls in each block")
                         ->check(CLI::Range(uint64_t{1}, uint64_t{1000000}));
  app.add_option("--seconds", options.seconds, "Time for each line and library")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str()
      ->excludes(iterations);
  auto* peer = app.add_option("--peer", words.peer, "Measure this beside floe, block by block: gloo");
  app.add_option("--python", options.python, "Interpreter with torch, for --peer gloo")
      ->envname("FLOE_PYTHON");
  app.add_flag("--kernel", options.kernel,
               "No ranks: GB/s of the sum of two buffers for each instruction set, beside oneDNN's")
      ->excludes(peer)
      ->excludes(ranks);
  try {
    app.parse(argc, argv);
    interpret(words, ranks->count() > 0, options);
  } catch (const CLI::ParseError& problem) {
    return {std::nullopt, app.exit(problem)};
  }
  return {options, 0};
}

}  // namespace floe::bench
