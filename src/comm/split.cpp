// floe_comm_split. Everything goes over the parent: first colours and keys, then the wire-up of the children.
#include <algorithm>

#include "coll/algorithms.h"
#include "comm/communicator.h"
#include "comm/descriptor.h"

namespace floe {
namespace {

struct Choice {
  int32_t color, key;
};

// The wire-up of one child. All ranks of the parent go through all phases, whatever their child needs and
// whatever becomes of it, so that they stay in step; a rank that can't go on says why instead of a value.
class ParentExchange final : public Exchange {
 public:
  // `members`: the child's ranks in the parent.
  ParentExchange(Communicator& parent, const std::vector<uint32_t>& members, Deadline deadline)
      : parent_(parent), members_(members), deadline_(deadline) {}

  Result<std::vector<std::string>> all(Phase phase, const std::string& mine, Deadline deadline) override {
    while (next_ < static_cast<int>(phase)) FLOE_TRY(round({}, deadline).status());
    const auto everybodys = round(kValue + mine, deadline);
    if (!everybodys.ok()) return everybodys.status();
    std::vector<std::string> values;
    for (uint32_t rank = 0; rank < members_.size(); ++rank) {
      const std::string& theirs = (*everybodys)[members_[rank]];
      if (!theirs.starts_with(kValue)) return failure_of(rank, theirs);
      values.push_back(theirs.substr(1));
    }
    return values;
  }

  Status interrupted() override { return parent_.fault(); }

  void give_up(const Status& why) override { farewell_ = kFailure + failure_text(why); }

  // The phases that the child has not needed.
  Status finish() {
    while (next_ < kPhases) FLOE_TRY(round(farewell_, deadline_).status());
    return {};
  }

 private:
  static constexpr char kValue = '=', kFailure = '!';

  Result<std::vector<std::string>> round(const std::string& mine, Deadline deadline) {
    ++next_;
    auto values = parent_.everyones(mine, deadline);
    if (!values.ok()) next_ = kPhases;  // the parent has failed: there is nothing to keep in step with
    return values;
  }

  Status failure_of(uint32_t rank, const std::string& text) const {
    const auto why = text.starts_with(kFailure) ? parse_failure(text.substr(1)) : std::nullopt;
    if (!why)
      return error(FLOE_ERR_INTERNAL, "rank {} of {} skipped a phase of the wire-up", rank, members_.size());
    return why->in(fmt::format("rank {} (rank {} of the parent)", rank, members_[rank]));
  }

  Communicator& parent_;
  const std::vector<uint32_t>& members_;
  const Deadline deadline_;
  std::string farewell_;
  int next_ = 0;  // the next phase
};

std::string child_name(const std::string& parent, int32_t color) {
  constexpr size_t kMaxName = 63;
  return fmt::format("{}/{}", parent, color).substr(0, kMaxName);
}

}  // namespace

Status Communicator::fault() {
  const std::lock_guard guard(engine_->lock());
  group_.progress();  // hears what others have published
  return group_.fault();
}

Status Communicator::gather_blocks(const void* mine, void* all, uint64_t bytes, Deadline deadline) {
  const Descriptor descriptor = floe::collective(Kind::kSplit, bytes, FLOE_UINT8);
  auto collective = std::make_shared<ScheduledCollective>(
      descriptor, floe::all_gather(rank(), equal_blocks(size(), bytes), false), mine, all, size(),
      group_.direct());
  const std::shared_ptr<Operation> operation = collective;
  {
    const std::lock_guard guard(engine_->lock());
    const uint64_t usual = group_.timeout_ms();
    group_.set_timeout(static_cast<uint64_t>(std::max<int64_t>(deadline.left().count(), 1)));
    const auto started = start(std::move(collective));
    group_.set_timeout(usual);
    if (!started.ok()) return started.status();
  }
  engine_->wait(*operation, Deadline::never());
  return operation->status();
}

Result<std::vector<std::string>> Communicator::everyones(const std::string& mine, Deadline deadline) {
  constexpr uint64_t kMost = 2 * Exchange::kMaxValue;
  const uint64_t length = mine.size();
  std::vector<uint64_t> lengths(size());
  FLOE_TRY(gather_blocks(&length, lengths.data(), sizeof length, deadline));
  const uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  if (longest > kMost)
    return error(FLOE_ERR_INTERNAL, "a value of {} bytes: at most {} can be exchanged", longest, kMost);
  std::string block = mine;
  block.resize(longest);
  std::string all(longest * size(), '\0');
  FLOE_TRY(gather_blocks(block.data(), all.data(), longest, deadline));
  std::vector<std::string> values(size());
  for (uint32_t rank = 0; rank < size(); ++rank) values[rank] = all.substr(rank * longest, lengths[rank]);
  return values;
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  const Deadline deadline = Deadline::in_ms(timeout_ms());
  const std::string what =
      fmt::format("floe_comm_split of '{}' on rank {} of {}", group_.name(), rank(), size());
  const Choice mine{color, key};
  std::vector<Choice> choices(size());
  const Status chosen = gather_blocks(&mine, choices.data(), sizeof mine, deadline);
  if (!chosen.ok()) return chosen.in(what);
  std::vector<uint32_t> members;
  for (uint32_t peer = 0; peer < size() && color != FLOE_UNDEFINED; ++peer)
    if (choices[peer].color == color) members.push_back(peer);
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return choices[a].key < choices[b].key; });

  ParentExchange exchange(*this, members, deadline);
  Result<std::unique_ptr<Communicator>> child = std::unique_ptr<Communicator>();
  if (!members.empty()) {
    WireUpConfig config;
    config.name = child_name(group_.name(), color);
    config.rank = static_cast<uint32_t>(std::find(members.begin(), members.end(), rank()) - members.begin());
    config.size = static_cast<uint32_t>(members.size());
    config.timeout_ms = static_cast<uint64_t>(std::max<int64_t>(deadline.left().count(), 1));
    child = connect(engine_, config, &exchange);
  }
  const Status in_step = exchange.finish();
  if (!child.ok()) return child.status().in(what);
  if (!in_step.ok()) return in_step.in(what);
  if (*child) hand_down_to(**child);
  return child;
}

}  // namespace floe
