#include "driver.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/types.h"
#include "floe_contender.h"
#include "gloo_contender.h"
#include "report.h"
#include "session.h"
#include "system.h"

namespace floe::bench {
namespace {

constexpr uint32_t kRounds = 5;
constexpr uint64_t kFewestCalls = 10, kMostCalls = 100'000;  // of a block

// Calls between two barriers, and how the machine was before and after.
struct Block {
  std::vector<double> us;  // on the slowest rank, by call
  Placement before, after;

  std::string state() const {
    return std::string(before.state() == after.state() ? before.state() : "moved");
  }
};

struct Measured {
  std::vector<Block> blocks;
  uint64_t errors = 0;
};

class Driver {
 public:
  Driver(const Options& options, Session& session, std::vector<std::unique_ptr<Contender>> contenders)
      : options_(options),
        session_(session),
        contenders_(std::move(contenders)),
        report_(options.json, contenders_.size() > 1) {}

  Status run();
  uint64_t errors() const { return report_.errors(); }

 private:
  Status measure(const Case& what);
  Result<uint64_t> plan(Contender& contender, const Case& what, Measured& measured);
  Status run_block(Contender& contender, const Case& what, uint64_t calls, Measured& measured);
  Result<Timings> run_on_all(Contender& contender, const Case& what, uint64_t calls);
  void report(const Case& what, const std::vector<Measured>& measured);

  const Options& options_;
  Session& session_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  Report report_;
  Placement last_probe_;
};

Status Driver::run() {
  if (session_.rank() == 0) report_.begin(session_.ranks(), session_.describe_cpus());
  for (const Operation* op : options_.ops) {
    for (const auto type : options_.types) {
      for (const uint64_t bytes : options_.sizes) {
        const Case what{op, type, part_count(*op, bytes, type_size(type), session_.ranks()),
                        options_.in_place};
        if (auto status = measure(what); !status.ok())
          return status.in(fmt::format("{} of {} x {}", op->name, type_name(type), what.count));
        if (!op->moves) break;
      }
      if (session_.rank() == 0) report_.end_of_table();
      if (!op->moves) break;
    }
  }
  return {};
}

// Runs the block on this rank, and brings together what the ranks saw: each call's longest time, and all
// errors.
Result<Timings> Driver::run_on_all(Contender& contender, const Case& what, uint64_t calls) {
  FLOE_TRY(session_.barrier());
  auto timings = contender.run(what, calls);
  if (!timings.ok()) return timings;
  FLOE_TRY(session_.longest(timings->us));
  auto errors = session_.sum(timings->errors);
  if (!errors.ok()) return errors.status();
  timings->errors = *errors;
  return timings;
}

// How many calls fit into the time of a block. Also the warm-up.
Result<uint64_t> Driver::plan(Contender& contender, const Case& what, Measured& measured) {
  if (options_.iterations > 0) {
    auto warm_up = run_on_all(contender, what, kFewestCalls);
    if (!warm_up.ok()) return warm_up.status();
    measured.errors += warm_up->errors;
    return options_.iterations;
  }
  uint64_t calls = kFewestCalls;
  for (int step = 0; step < 2; ++step) {
    const auto begin = Clock::now();
    auto warm_up = run_on_all(contender, what, calls);
    if (!warm_up.ok()) return warm_up.status();
    measured.errors += warm_up->errors;
    const double fit = options_.seconds / kRounds / (seconds_since(begin) / static_cast<double>(calls));
    const uint64_t most = step == 0 ? 1000 : kMostCalls;
    auto agreed = session_.from_rank_0(
        static_cast<uint64_t>(std::clamp(fit, static_cast<double>(kFewestCalls), static_cast<double>(most))));
    if (!agreed.ok()) return agreed;
    calls = *agreed;
  }
  return calls;
}

Status Driver::run_block(Contender& contender, const Case& what, uint64_t calls, Measured& measured) {
  Block block;
  block.before = last_probe_;
  auto timings = run_on_all(contender, what, calls);
  if (!timings.ok()) return timings.status().in(contender.name());
  block.us = std::move(timings->us);
  auto probe = session_.probe();
  if (!probe.ok()) return probe.status();
  block.after = last_probe_ = *probe;
  measured.errors += timings->errors;
  measured.blocks.push_back(std::move(block));
  return {};
}

Status Driver::measure(const Case& what) {
  std::vector<Measured> measured(contenders_.size());
  std::vector<uint64_t> calls;
  for (size_t i = 0; i < contenders_.size(); ++i) {
    auto planned = plan(*contenders_[i], what, measured[i]);
    if (!planned.ok()) return planned.status().in(contenders_[i]->name());
    calls.push_back(*planned);
  }
  auto probe = session_.probe();
  if (!probe.ok()) return probe.status();
  last_probe_ = *probe;
  for (uint32_t round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < contenders_.size(); ++i)
      FLOE_TRY(run_block(*contenders_[i], what, calls[i], measured[i]));
  if (session_.rank() == 0) report(what, measured);
  return {};
}

// The state in which the contender that has fewest blocks of it has most; "mixed" if none has been seen by
// all of them.
std::string common_state(const std::vector<Measured>& measured) {
  std::string best = "mixed";
  int64_t most = 0;
  for (const Block& candidate : measured.front().blocks) {
    const std::string state = candidate.state();
    if (state == "moved") continue;
    int64_t fewest = kRounds;
    for (const Measured& m : measured)
      fewest = std::min<int64_t>(fewest, std::count_if(m.blocks.begin(), m.blocks.end(),
                                                       [&](const Block& b) { return b.state() == state; }));
    if (fewest > most) {
      most = fewest;
      best = state;
    }
  }
  return best;
}

Placement median_placement(const std::vector<const Block*>& blocks) {
  std::vector<double> exchange, read;
  for (const Block* block : blocks)
    for (const Placement* p : {&block->before, &block->after}) {
      exchange.push_back(p->exchange_ns);
      read.push_back(p->read_gbps);
    }
  return {statistics(exchange).p50, statistics(read).p50};
}

void Driver::report(const Case& what, const std::vector<Measured>& measured) {
  const std::string state = common_state(measured);
  std::optional<Statistics> reference;
  for (size_t i = 0; i < measured.size(); ++i) {
    std::vector<const Block*> used;
    for (const Block& block : measured[i].blocks)
      if (state == "mixed" || block.state() == state) used.push_back(&block);
    std::vector<double> us;
    for (const Block* block : used) us.insert(us.end(), block->us.begin(), block->us.end());

    Row row;
    row.peer = contenders_[i]->name();
    row.what = what;
    row.ranks = session_.ranks();
    row.bytes = total_bytes(*what.op, what.count, type_size(what.type), row.ranks);
    row.calls = us.size();
    row.us = statistics(std::move(us));
    row.errors = measured[i].errors;
    row.blocks = static_cast<uint32_t>(measured[i].blocks.size());
    row.blocks_used = static_cast<uint32_t>(used.size());
    row.state = state;
    row.placement = median_placement(used);
    if (reference) row.ratio = {row.us.p50 / reference->p50, row.us.mean / reference->mean};
    if (!reference) reference = row.us;
    report_.add(std::move(row));
  }
}

Result<std::unique_ptr<Contender>> start_gloo(const Options& options, Session& session) {
  auto port = session.from_rank_0(session.rank() == 0 ? free_port() : 0);
  if (!port.ok()) return port.status();
  const char* address = std::getenv("MASTER_ADDR");
  auto peer = GlooContender::start({options.python, address ? address : "127.0.0.1",
                                    static_cast<uint16_t>(*port), session.rank(), session.ranks()});
  if (!peer.ok()) return peer.status().in("--peer gloo");
  return std::unique_ptr<Contender>(std::move(*peer));
}

Result<uint64_t> measure_all(const Options& options, Session& session) {
  std::vector<std::unique_ptr<Contender>> contenders;
  contenders.push_back(
      std::make_unique<FloeContender>(session.comm(), session.rank(), session.ranks(), session.ticks()));
  if (options.gloo) {
    auto gloo = start_gloo(options, session);
    if (!gloo.ok()) return gloo.status();
    contenders.push_back(std::move(*gloo));
  }
  Driver driver(options, session, std::move(contenders));
  FLOE_TRY(driver.run());
  return driver.errors();
}

}  // namespace

int run_rank(const Options& options) {
  signal(SIGPIPE, SIG_IGN);  // a peer's process that died is an error of its pipe
  Session session;
  Status status = session.join();
  uint64_t errors = 0;
  if (status.ok()) {
    auto result = measure_all(options, session);
    status = result.status();
    if (result.ok()) errors = *result;
  }
  if (!status.ok()) {
    fmt::print(stderr, "floe-bench: rank {}: {}\n", session.who(), status.message());
    return 1;
  }
  if (errors > 0) fmt::print(stderr, "floe-bench: {} wrong elements\n", errors);
  return errors > 0 ? 1 : 0;
}

}  // namespace floe::bench
