#include "shm/cost_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "shm/segment.h"

namespace floe {
namespace {

// Measured on two cores of AMD EPYCs under KVM, which moves them, by floe-bench --tune on two ranks: the
// geometric mean of a Zen 5 and a Zen 4, of each the median of eight and seven runs, far three and seven.
// Near is where an exchange of flags took 60 to 75 ns, far where it took 270. Zen 5 near alone: 63, {46, 17},
// {129, 15.8}, {115, 12.4}; Zen 4: 76, {80, 95}, {216, 82}, {174, 37}. exchange: a Zen 5 alone, {62, 9.9}
// near and {90, 23} far, moved by as much as small's start differs there and here. `turn`: what ranks that
// share a CPU take longer, two to eight on one or two.
constexpr Coefficients kNear = {
    69'000, 2'300'000, {61'000, 40'000}, {167'000, 36'000}, {141'000, 21'400}, {100'000, 16'600}};
constexpr Coefficients kFar = {274'000,           2'300'000,         {163'000, 140'000},
                               {451'000, 61'000}, {228'000, 52'000}, {244'000, 55'000}};

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct Name {
  std::string_view name;
  Coefficients::Ps& (*of)(Coefficients&);
};
constexpr Name kNames[] = {
    {"flag", [](Coefficients& c) -> Coefficients::Ps& { return c.flag; }},
    {"turn", [](Coefficients& c) -> Coefficients::Ps& { return c.turn; }},
    {"small", [](Coefficients& c) -> Coefficients::Ps& { return c.small.start; }},
    {"small_kib", [](Coefficients& c) -> Coefficients::Ps& { return c.small.kib; }},
    {"stream", [](Coefficients& c) -> Coefficients::Ps& { return c.stream.start; }},
    {"stream_kib", [](Coefficients& c) -> Coefficients::Ps& { return c.stream.kib; }},
    {"return_line", [](Coefficients& c) -> Coefficients::Ps& { return c.return_line.start; }},
    {"return_line_kib", [](Coefficients& c) -> Coefficients::Ps& { return c.return_line.kib; }},
    {"exchange", [](Coefficients& c) -> Coefficients::Ps& { return c.exchange.start; }},
    {"exchange_kib", [](Coefficients& c) -> Coefficients::Ps& { return c.exchange.kib; }},
};

Status wrong(std::string_view text, std::string_view item) {
  std::string names;
  for (const Name& row : kNames) names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return error(
      FLOE_ERR_ENVIRONMENT,
      "FLOE_COST_MODEL='{}' is not valid at '{}': use name=ns from 0 to 1000000, separated by commas, with "
      "the names {}",
      text, item, names);
}

// "name=12.5" into the coefficient of that name. False if there is no such name, or the value is wrong.
bool set(Coefficients& coefficients, std::string_view item) {
  constexpr double kMostNs = 1e6;  // bounds all sums far below 2^63
  const size_t equals = std::min(item.find('='), item.size());
  const std::string_view number = item.substr(std::min(equals + 1, item.size()));
  const auto* row = std::find_if(std::begin(kNames), std::end(kNames),
                                 [&](const Name& n) { return n.name == item.substr(0, equals); });
  double ns = -1;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), ns);
  if (row == std::end(kNames) || problem != std::errc() || end != number.data() + number.size() ||
      !(ns >= 0 && ns <= kMostNs))
    return false;
  row->of(coefficients) = std::llround(ns * 1000);
  return true;
}

}  // namespace

std::string_view name_of(Protocol protocol) {
  constexpr std::string_view names[] = {"small", "stream", "return_line", "exchange"};
  return names[static_cast<size_t>(protocol)];
}

std::string only(Protocol protocol) {
  std::string text;
  for (const Protocol other : kProtocols)
    if (other != protocol)
      text += fmt::format("{0}{1}=1000000,{1}_kib=1000000", text.empty() ? "" : ",", name_of(other));
  return text;
}

std::string Coefficients::text() const {
  std::string text;
  Coefficients copy = *this;
  for (const Name& row : kNames)
    text += fmt::format("{}{}={:.6g}", text.empty() ? "" : ",", row.name,
                        static_cast<double>(row.of(copy)) / 1000);
  return text;
}

Result<CostModel> CostModel::create(std::string_view given) {
  CostModel model;
  model.near_ = kNear;
  model.far_ = kFar;
  model.given_ = given;
  for (std::string_view rest = given; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    if (comma + 1 == rest.size() || !set(model.near_, item) || !set(model.far_, item))
      return wrong(given, item);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return model;
}

Coefficients CostModel::at(const Surroundings& where) const {
  Coefficients c = where.one_cache && where.memory_percent <= 100 ? near_ : far_;
  if (!given_.empty()) return c;
  // Other sockets: never run. What crosses between them takes longer by the distance that the firmware gives.
  for (auto* value : {&c.flag, &c.small.kib, &c.stream.kib, &c.return_line.kib, &c.exchange.kib})
    *value = *value * where.memory_percent / 100;
  return c;
}

std::string CostModel::text() const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, the same in all builds
  for (const char c : kNear.text() + kFar.text())
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{}{}floe's own ({:016x})", given_, given_.empty() ? "" : " over ", hash);
}

namespace {

// Where every rank has a block for every other one, with which it can swap.
bool has_pairs(const Pattern& pattern, uint32_t ranks) {
  return pattern.exchanges() && (pattern.block_each || (ranks == 2 && !pattern.reduces));
}

// Some only publish, in one slot after the other, and others only read: each does half of the work, while the
// others do theirs.
bool one_way(const Pattern& pattern) { return pattern.publish != Pattern::Ranks::kAll; }

}  // namespace

uint64_t Cost::most(Protocol protocol) const {
  switch (protocol) {
    case Protocol::kSmall:
      return (exchanges() ? SegmentLayout::kExchangeBytes : SegmentLayout::kSmallDataBytes) /
             (pattern_.block_each ? std::max(where_.ranks, 2u) - 1 : 1);
    case Protocol::kStream: return has_pairs(pattern_, where_.ranks) ? 0 : kNoLimit;
    case Protocol::kExchange: return has_pairs(pattern_, where_.ranks) ? kNoLimit : 0;
    // What every rank needs a part of, and nobody all by itself.
    case Protocol::kReturnLine: return pattern_.reduces && !pattern_.block_each ? kNoLimit : 0;
  }
  return 0;
}

Cost::Work Cost::work(Protocol protocol) const {
  const uint64_t n = where_.ranks, peers = n - 1, sharing = where_.ranks_per_cpu;
  // The reader has `sources` slots to read, after each of their owners has filled its own with `filled`
  // blocks; or while it fills its next one.
  const uint64_t sources = pattern_.publish == Pattern::Ranks::kRoot ? 1 : peers;
  const uint64_t filled = pattern_.block_each ? peers : 1;
  if (protocol != Protocol::kReturnLine) {
    if (!one_way(pattern_)) return {1, n * (filled + sources), sharing};
    // The one that has most to do, and those beside it on its CPU, which do what the others do.
    return {1, n * (std::max(filled, sources) + (sharing - 1) * std::min(filled, sources)), 1};
  }
  // Of a block's n parts each rank puts those that others own, reads its own from all of them, and returns it
  // to those who want it; they take the others'.
  const uint64_t wanting = pattern_.read == Pattern::Ranks::kAll ? peers : 1;
  // Lines from which their writer takes no result back have not been returned to it: twice as dear, for two
  // ranks. Those of ranks on its own CPU are there.
  const uint64_t price = pattern_.read == Pattern::Ranks::kAll || sharing > 1 ? 1 : 2;
  return {2, price * (peers + peers + wanting + peers), sharing};
}

uint64_t Cost::turns(Protocol protocol) const {
  const uint64_t sharing = where_.ranks_per_cpu;
  if (sharing == 1) return 0;
  // All of them come to where they wait, and all go on. The return line has them wait twice, but of two, who
  // is the last to put can add at once. Who only publishes need not wait: its readers come to several
  // operations in one turn.
  if (protocol == Protocol::kReturnLine) return sharing == 2 ? 3 : 2 * sharing;
  return one_way(pattern_) ? 0 : sharing;
}

int64_t Cost::fixed(Protocol protocol) const {
  const Work w = work(protocol);
  const int64_t start = c_.of(protocol).start;
  const bool half = one_way(pattern_) && protocol != Protocol::kReturnLine;
  return where_.ranks_per_cpu * ((half ? start / 2 : start) + static_cast<int64_t>(w.flags) * c_.flag) +
         static_cast<int64_t>(turns(protocol)) * c_.turn;
}

int64_t Cost::kib(Protocol protocol) const {
  const Work w = work(protocol);
  const int64_t all = c_.of(protocol).kib * static_cast<int64_t>(w.blocks_by_ranks) / where_.ranks *
                      static_cast<int64_t>(w.times);
  // Each KiB that two ranks exchange takes less (Zen 5, all_gather of blocks of 8 to 48 KiB: as in the large
  // exchange).
  return protocol == Protocol::kSmall && exchanges() ? all * 2 / 5 : all;
}

uint64_t Cost::charged(Protocol protocol, uint64_t block_bytes) {
  return protocol == Protocol::kSmall ? block_bytes - std::min(block_bytes, SegmentLayout::kBesideFlag)
                                      : block_bytes;
}

double Cost::ns(Protocol protocol, uint64_t block_bytes) const {
  const double kibs = static_cast<double>(charged(protocol, block_bytes)) / 1024;
  return (static_cast<double>(fixed(protocol)) + static_cast<double>(kib(protocol)) * kibs) / 1000;
}

namespace {

// Times are straight lines over the size: the largest one, at most `most`, up to which `a` is not slower than
// `b`. If `a` is the less steep one it is not slower from some size on: `most`, if that is below.
uint64_t up_to(const Cost& cost, Protocol a, Protocol b, uint64_t most) {
  const uint64_t free = SegmentLayout::kBesideFlag - Cost::charged(a, SegmentLayout::kBesideFlag);  // of a
  const int64_t ahead = cost.fixed(b) + cost.kib(b) * static_cast<int64_t>(free) / 1024 - cost.fixed(a);
  const int64_t steeper = cost.kib(a) - cost.kib(b);
  if (most == 0 || (ahead < 0 && steeper >= 0)) return 0;
  if (steeper > 0) return std::min(most, free + static_cast<uint64_t>(ahead * 1024 / steeper));
  return ahead >= 0 || static_cast<uint64_t>(-ahead) * 1024 / most < static_cast<uint64_t>(-steeper) ? most
                                                                                                     : 0;
}

}  // namespace

SizeRanges choose(const Cost& cost) {
  using enum Protocol;
  if (cost.most(kExchange) != 0)
    return {{{{up_to(cost, kSmall, kExchange, cost.most(kSmall)), kSmall}, {kNoLimit, kExchange}}}};
  const uint64_t small = up_to(cost, kSmall, kStream, cost.most(kSmall)), most = cost.most(kReturnLine);
  if (most == 0) return {{{{small, kSmall}, {kNoLimit, kStream}}}};
  // The less steep one comes last.
  const bool less_steep = cost.kib(kReturnLine) < cost.kib(kStream);
  const Protocol next = less_steep ? kStream : kReturnLine, last = less_steep ? kReturnLine : kStream;
  return {{{{up_to(cost, kSmall, kReturnLine, small), kSmall},
            {std::min(up_to(cost, next, last, cost.most(next)), most), next},
            {most, last},
            {kNoLimit, kStream}}}};
}

Choices::Choices(const CostModel& model, const Surroundings& where) {
  const Coefficients coefficients = model.at(where);
  for (const auto& [name, pattern] : kPatterns)
    choices_[index(pattern)] = choose(Cost(coefficients, where, pattern));
}

}  // namespace floe
