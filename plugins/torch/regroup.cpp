// Backend's groups of some of its ranks, or of more. PyTorch gives each a store, through which its ranks
// meet.
#include <c10/util/Exception.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backend.h"

namespace floe_torch {
namespace {

constexpr int kShrinkAbort = 1;  // dist.SHRINK_ABORT

// In messages: the group's name in floe's alphabet and length.
std::string name_of(const std::string& group_name, const char* otherwise) {
  if (group_name.empty()) return otherwise;
  std::string name = "group-" + group_name.substr(0, 57);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c < '!' || c > '~'; }, '_');
  return name;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& opts) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  for (const int rank : ranks) root_rank("floe:split", rank);
  auto group = create(store->clone(), static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()),
                      name_of(opts->group_name, "split"), opts->timeout);
  group->set_members(members(ranks));
  return group;
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<Options>& opts, const int& rank,
                                                 const int& size) {
  return create(store->clone(), rank, size, name_of(opts->group_name, "merged"), opts->timeout);
}

// Ranks that are excluded don't take part, be they dead or alive: so the others meet in the store.
c10::intrusive_ptr<c10d::Backend> Backend::shrink(const std::vector<int64_t>& ranks_to_exclude,
                                                  int shrink_flags,
                                                  const c10::intrusive_ptr<Options>& opts_override) {
  constexpr const char* what = "floe:shrink";
  std::vector<bool> stays(static_cast<size_t>(size_), true);
  for (const int64_t rank : ranks_to_exclude) stays[root_rank(what, rank)] = false;
  TORCH_CHECK(stays[static_cast<size_t>(rank_)], what, ": rank ", rank_,
              " is one of those to exclude, which must not call this");
  const auto store = own_store();
  if ((shrink_flags & kShrinkAbort) != 0) abort();
  const std::string prefix = "shrunk/" + std::to_string(shrunk_++) + "/";
  std::vector<int> left;
  for (int rank = 0; rank < size_; ++rank)
    if (stays[static_cast<size_t>(rank)]) left.push_back(rank);
  const auto place = std::lower_bound(left.begin(), left.end(), rank_) - left.begin();
  auto group = create(c10::make_intrusive<c10d::PrefixStore>(prefix, store), static_cast<int>(place),
                      static_cast<int>(left.size()), "shrunk",
                      opts_override ? opts_override->timeout : options_->timeout);
  group->set_members(members(left));
  return group;
}

}  // namespace floe_torch
