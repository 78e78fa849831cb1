#include "driver.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/types.h"
#include "calls.h"
#include "floe_contender.h"
#include "peers.h"
#include "provider_contender.h"
#include "report.h"
#include "roofline.h"
#include "session.h"
#include "tune.h"

namespace floe::bench {
namespace {

// Many and short: there are hypervisors that move CPUs from core to core several times a second.
constexpr uint32_t kRounds = 15, kRoundsOnSharedCpus = 5;
constexpr uint64_t kWarmUpCalls = 10, kMostWarmUpCalls = 1000;
// Seconds, by the calls alone: ranks wait some three minutes for each other and for peers.
constexpr double kLongestBlock = 60;

// Calls between two barriers, and how the machine was before and after.
struct Block {
  std::vector<double> us;  // by call that counts, on this rank
  double cpu_ns = 0;       // on all ranks, of those calls
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
  // `tuner` may be null; it hears of all lines, on rank 0.
  Driver(const Options& options, Session& session, std::vector<std::unique_ptr<Contender>> contenders,
         Tuner* tuner)
      : options_(options),
        session_(session),
        contenders_(std::move(contenders)),
        report_(options),
        tuner_(tuner) {}

  Status run();
  uint64_t errors() const { return report_.errors(); }

 private:
  Status measure_size(const Operation& op, floe_type_t type, uint64_t bytes);
  Status measure(const Case& what, std::vector<Line>& lines);
  uint32_t rounds() const { return session_.share_cpus() ? kRoundsOnSharedCpus : kRounds; }
  Result<Calls> plan(Contender& contender, const Case& what, Measured& measured);
  Status run_block(Contender& contender, const Case& what, const Calls& calls, Measured& measured);
  Result<Timings> run_on_all(Contender& contender, const Case& what, uint64_t calls);
  Result<std::optional<Row>> row_of(size_t contender, const Case& what, const Measured& measured,
                                    const std::string& state);
  Status enter(const Case& what, const std::vector<Measured>& measured, std::vector<Line>& lines);

  const Options& options_;
  Session& session_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  Report report_;
  Tuner* const tuner_;
  Placement last_probe_;
};

Status Driver::run() {
  if (session_.rank() == 0) FLOE_TRY(report_.begin(session_.ranks(), session_.describe_cpus()));
  for (const Operation* op : options_.ops) {
    for (const auto type : options_.types) {
      for (const uint64_t bytes : options_.sizes) {
        FLOE_TRY(measure_size(*op, type, bytes));
        if (!op->moves()) break;
      }
      if (session_.rank() == 0) report_.end_of_table();
      if (!op->moves()) break;
    }
  }
  return session_.rank() == 0 ? report_.end() : Status();
}

Status Driver::measure_size(const Operation& op, floe_type_t type, uint64_t bytes) {
  const uint64_t count = part_count(op, bytes, type_size(type), session_.ranks());
  std::vector<Line> lines(contenders_.size());
  for (size_t i = 0; i < lines.size(); ++i) lines[i].library = contenders_[i]->name();
  const bool one_form = !op.has_form(true) || !op.has_form(false);
  for (const bool in_place : {false, true}) {
    const Place place = in_place ? Place::kIn : Place::kOut;
    if (!op.has_form(in_place) || !(one_form || options_.place == Place::kBoth || options_.place == place))
      continue;
    const Case what{&op, type, count, in_place, options_.manner};
    if (auto status = measure(what, lines); !status.ok())
      return status.in(fmt::format("{} of {} x {}", op.name, type_name(type), count));
  }
  if (session_.rank() != 0) return {};
  if (tuner_) tuner_->add(lines);
  report_.add(std::move(lines));
  return {};
}

// Runs the block on this rank; with the errors, and the CPU time, of all.
Result<Timings> Driver::run_on_all(Contender& contender, const Case& what, uint64_t calls) {
  FLOE_TRY(session_.barrier());
  auto timings = contender.run(what, calls);
  if (!timings.ok()) return timings;
  auto errors = session_.sum(timings->errors);
  if (!errors.ok()) return errors.status();
  timings->errors = *errors;
  if (!what.manner.cpu) return timings;
  auto cpu_ns = session_.sum(timings->cpu_ns);
  if (!cpu_ns.ok()) return cpu_ns.status();
  timings->cpu_ns = *cpu_ns;
  return timings;
}

// Of each block; none that count: the contender has no such operation. Also the warm-up.
Result<Calls> Driver::plan(Contender& contender, const Case& what, Measured& measured) {
  Calls calls{.counted = kWarmUpCalls};
  for (int step = 0; step < 2; ++step) {
    auto warm_up = run_on_all(contender, what, std::min(calls.counted, kMostWarmUpCalls));
    if (!warm_up.ok()) return warm_up.status();
    if (!warm_up->measured) return Calls{};
    measured.errors += warm_up->errors;
    std::vector<double>& us = warm_up->us;  // the first half while pages are touched and caches filled
    Statistics later = statistics({us.begin() + static_cast<ptrdiff_t>(us.size() / 2), us.end()});
    FLOE_TRY(session_.take_largest(later));
    calls = plan_calls(later.mean, options_.seconds * 1e6 / rounds());
    if (options_.iterations == 0) continue;
    calls.counted = options_.iterations;
    if (const double seconds = later.mean * static_cast<double>(calls.all()) / 1e6; seconds > kLongestBlock)
      return error(FLOE_ERR_ARGUMENT,
                   "--iters {}: a call takes {:.0f} us, and so a block of them {:.0f} s; at most {:.0f} s is "
                   "waited for: use fewer, or smaller --sizes",
                   options_.iterations, later.mean, seconds, kLongestBlock);
    break;
  }
  return calls;
}

Status Driver::run_block(Contender& contender, const Case& what, const Calls& calls, Measured& measured) {
  // A rank whose contender is ready has waited beside others' that compute, and floe remembers that for 100
  // ms.
  if (session_.share_cpus()) std::this_thread::sleep_for(Millis(120));
  Block block;
  block.before = last_probe_;
  auto timings = run_on_all(contender, what, calls.all());
  if (!timings.ok()) return timings.status().in(contender.name());
  block.us.assign(timings->us.end() - static_cast<ptrdiff_t>(calls.counted), timings->us.end());
  block.cpu_ns = static_cast<double>(timings->cpu_ns) * static_cast<double>(calls.counted) /
                 static_cast<double>(calls.all());
  auto probe = session_.probe();
  if (!probe.ok()) return probe.status();
  block.after = last_probe_ = *probe;
  measured.errors += timings->errors;
  measured.blocks.push_back(std::move(block));
  return {};
}

Status Driver::measure(const Case& what, std::vector<Line>& lines) {
  std::vector<Measured> measured(contenders_.size());
  std::vector<Calls> calls;
  for (size_t i = 0; i < contenders_.size(); ++i) {
    auto planned = plan(*contenders_[i], what, measured[i]);
    if (!planned.ok()) return planned.status().in(contenders_[i]->name());
    calls.push_back(*planned);
  }
  auto probe = session_.probe();
  if (!probe.ok()) return probe.status();
  last_probe_ = *probe;
  for (uint32_t round = 0; round < rounds(); ++round)
    for (size_t i = 0; i < contenders_.size(); ++i)
      if (calls[i].counted > 0) FLOE_TRY(run_block(*contenders_[i], what, calls[i], measured[i]));
  return enter(what, measured, lines);
}

// The state in which the contender that has fewest blocks of it has most; "mixed" if none has been seen by
// all of them.
std::string common_state(const std::vector<Measured>& measured) {
  std::string best = "mixed";
  int64_t most = 0;
  std::set<std::string> states;
  for (const Measured& m : measured)
    for (const Block& block : m.blocks) states.insert(block.state());
  states.erase("moved");
  for (const std::string& state : states) {
    int64_t fewest = kRounds;
    for (const Measured& m : measured)
      if (!m.blocks.empty())
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

// One contender's row; empty if it was not measured.
Result<std::optional<Row>> Driver::row_of(size_t contender, const Case& what, const Measured& measured,
                                          const std::string& state) {
  if (measured.blocks.empty()) return std::optional<Row>();
  std::vector<const Block*> used;
  for (const Block& block : measured.blocks)
    if (state == "mixed" || block.state() == state) used.push_back(&block);
  std::vector<double> us;
  double cpu_ns = 0;
  for (const Block* block : used) {
    us.insert(us.end(), block->us.begin(), block->us.end());
    cpu_ns += block->cpu_ns;
  }

  Row row;
  row.library = contenders_[contender]->name();
  row.what = what;
  row.what.manner.heap &= contenders_[contender]->has_heap();
  row.ranks = session_.ranks();
  row.bytes = total_bytes(*what.op, what.count, type_size(what.type), row.ranks);
  row.calls = us.size();
  if (what.manner.cpu) row.cpu_us = cpu_ns / 1000 / static_cast<double>(row.calls) / row.ranks;
  row.us = statistics(std::move(us));
  FLOE_TRY(session_.take_largest(row.us));
  row.errors = measured.errors;
  row.blocks = static_cast<uint32_t>(measured.blocks.size());
  row.blocks_used = static_cast<uint32_t>(used.size());
  row.state = state;
  row.placement = median_placement(used);
  return std::optional(std::move(row));
}

// Puts the case's rows into the lines of its size.
Status Driver::enter(const Case& what, const std::vector<Measured>& measured, std::vector<Line>& lines) {
  const std::string state = common_state(measured);
  const auto place = what.in_place ? &Line::in : &Line::out;
  for (size_t i = 0; i < measured.size(); ++i) {
    auto entered = row_of(i, what, measured[i], state);
    if (!entered.ok()) return entered.status();
    auto& row = lines[i].*place = std::move(*entered);
    const auto& floe = lines[0].*place;  // with --tune a protocol, which may not carry this size
    if (row && floe && i > 0)
      row->ratio = {row->us.p50 / floe->us.p50, row->us.mean / floe->us.mean, row->us.p99 / floe->us.p99};
  }
  return {};
}

Result<uint64_t> measure_all(const Options& options, Session& session) {
  std::vector<std::unique_ptr<Contender>> contenders;
  if (options.tune) {
    auto protocols = start_protocols(session);
    if (!protocols.ok()) return protocols.status();
    Tuner tuner(session);
    Driver driver(options, session, std::move(*protocols), &tuner);
    FLOE_TRY(driver.run());
    if (session.rank() == 0) FLOE_TRY(tuner.print());
    return driver.errors();
  }
  contenders.push_back(std::make_unique<FloeContender>(session));
  if (options.ordinary)
    contenders.push_back(std::make_unique<FloeContender>(session, FloeContender::Memory::kOrdinary));
  for (const std::string& provider : options.providers) {
    auto contender = std::make_unique<ProviderContender>(provider);
    FLOE_TRY(contender->start());
    contenders.push_back(std::move(contender));
  }
  if (options.roofline) contenders.push_back(std::make_unique<Roofline>(session));
  for (const std::string& name : options.peers) {
    auto peer = start_peer(name, options.places, session);
    if (!peer.ok()) return peer.status();
    contenders.push_back(std::move(*peer));
  }
  Driver driver(options, session, std::move(contenders), nullptr);
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
