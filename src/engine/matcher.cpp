#include "engine/matcher.h"

#include <algorithm>
#include <utility>

#include "engine/messenger.h"

namespace floe {
namespace {

Matcher::Key key_of(const Transfer& receive) { return {receive.descriptor.lane, receive.peer, receive.tag}; }
Matcher::Key key_of(const PacketHeader& message) {
  return {message.descriptor.lane, message.source, message.tag};
}

bool takes(const Transfer& from_several, const Matcher::Key& message) {
  const auto& sources = from_several.sources;
  return from_several.descriptor.lane == message.lane && from_several.tag == message.tag &&
         std::find(sources.begin(), sources.end(), message.source) != sources.end();
}

}  // namespace

Matcher::Bucket& Matcher::bucket(const Key& key) {
  const uint64_t x = key.tag * 0x9e3779b97f4a7c15 + key.source * 0xbf58476d1ce4e5b9 + key.lane;
  return buckets_[(x ^ x >> 29) & (buckets_.size() - 1)];
}

void Matcher::append(Transfer& receive) {
  Bucket& chain = bucket(key_of(receive));
  receive.next = nullptr;
  (chain.first ? chain.last->next : chain.first) = &receive;
  chain.last = &receive;
}

void Matcher::count_one_more() {
  constexpr size_t kLongest = 4;  // on average
  if (++entries_ <= kLongest * buckets_.size()) return;
  std::vector<Bucket> old(2 * buckets_.size());
  old.swap(buckets_);
  for (Bucket& from : old) {
    for (Transfer* receive = from.first; receive;) append(*std::exchange(receive, receive->next));
    while (!from.kept.empty()) {
      auto& to = bucket(key_of(from.kept.front().header)).kept;
      to.splice(to.end(), from.kept, from.kept.begin());
    }
  }
}

Transfer* Matcher::match(const Key& message) {
  Bucket& chain = bucket(message);
  Transfer *before = nullptr, *exact = chain.first;
  for (; exact && key_of(*exact) != message; exact = exact->next) before = exact;
  const auto any = std::find_if(posted_any_.begin(), posted_any_.end(),
                                [&](const Transfer* receive) { return takes(*receive, message); });
  if (any != posted_any_.end() && (!exact || (*any)->order < exact->order)) {
    Transfer* const receive = *any;
    posted_any_.erase(any);
    return receive;
  }
  if (!exact) return nullptr;
  (before ? before->next : chain.first) = exact->next;
  if (chain.last == exact) chain.last = before;
  --entries_;
  return exact;
}

Unexpected* Matcher::keep(Unexpected message) {
  count_one_more();
  message.arrival = ++order_;
  return &bucket(key_of(message.header)).kept.emplace_back(std::move(message));
}

std::optional<Matcher::Kept> Matcher::find_kept(const Key& key) {
  auto& kept = bucket(key).kept;
  const auto found = std::find_if(kept.begin(), kept.end(),
                                  [&](const Unexpected& message) { return key_of(message.header) == key; });
  if (found == kept.end()) return std::nullopt;
  return found;
}

Unexpected Matcher::take(Kept message) {
  Unexpected taken = std::move(*message);
  bucket(key_of(taken.header)).kept.erase(message);
  --entries_;
  return taken;
}

std::optional<Unexpected> Matcher::post(Transfer& receive) {
  receive.order = ++order_;
  if (receive.sources.empty()) {
    if (const auto message = find_kept(key_of(receive))) return take(*message);
    count_one_more();
    append(receive);
    return std::nullopt;
  }
  std::optional<Kept> oldest;
  for (const uint32_t source : receive.sources) {
    const auto message = find_kept({receive.descriptor.lane, source, receive.tag});
    if (message && (!oldest || (*message)->arrival < (*oldest)->arrival)) oldest = message;
  }
  if (oldest) return take(*oldest);
  posted_any_.push_back(&receive);
  return std::nullopt;
}

bool Matcher::move(const Transfer& posted, Transfer& to) {
  if (!posted.sources.empty()) {
    const auto any = std::find(posted_any_.begin(), posted_any_.end(), &posted);
    if (any != posted_any_.end()) *any = &to;
    return any != posted_any_.end();
  }
  Bucket& chain = bucket(key_of(posted));
  Transfer *before = nullptr, *at = chain.first;
  for (; at && at != &posted; at = at->next) before = at;
  if (!at) return false;
  (before ? before->next : chain.first) = &to;
  if (chain.last == at) chain.last = &to;
  to.next = posted.next;
  return true;
}

void Matcher::clear() {
  buckets_ = std::vector<Bucket>(kFirstBuckets);
  entries_ = 0;
  posted_any_.clear();
}

}  // namespace floe
