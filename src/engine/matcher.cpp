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

void Matcher::append(Bucket& to, Transfer& receive) {
  receive.next = nullptr;
  (to.first ? to.last->next : to.first) = &receive;
  to.last = &receive;
}

void Matcher::count_one_more() {
  constexpr size_t kLongest = 4;  // on average
  if (++entries_ <= kLongest * buckets_.size()) return;
  std::vector<Bucket> old(2 * buckets_.size());
  old.swap(buckets_);
  for (Bucket& from : old) {
    for (Transfer* receive = from.first; receive;) {
      Transfer& next = *std::exchange(receive, receive->next);
      append(bucket(key_of(next)), next);
    }
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
    --posted_;
    return receive;
  }
  if (!exact) return nullptr;
  (before ? before->next : chain.first) = exact->next;
  if (chain.last == exact) chain.last = before;
  --entries_;
  --posted_;
  return exact;
}

bool Matcher::has(const Key& message) {
  for (const Transfer* receive = bucket(message).first; receive; receive = receive->next)
    if (key_of(*receive) == message) return true;
  return std::any_of(posted_any_.begin(), posted_any_.end(),
                     [&](const Transfer* receive) { return takes(*receive, message); });
}

Unexpected* Matcher::keep(Unexpected message) {
  count_one_more();
  message.arrival = ++order_;
  return &bucket(key_of(message.header)).kept.emplace_back(std::move(message));
}

Matcher::Kept Matcher::find_kept(Bucket& in, const Key& key) {
  return std::find_if(in.kept.begin(), in.kept.end(),
                      [&](const Unexpected& message) { return key_of(message.header) == key; });
}

Unexpected Matcher::take(Bucket& from, Kept message) {
  Unexpected taken = std::move(*message);
  from.kept.erase(message);
  --entries_;
  return taken;
}

std::optional<Unexpected> Matcher::post(Transfer& receive) {
  receive.order = ++order_;
  if (receive.sources.empty()) {
    const Key key = key_of(receive);
    Bucket& chain = bucket(key);
    if (const Kept message = find_kept(chain, key); message != chain.kept.end()) return take(chain, message);
    append(chain, receive);
    count_one_more();
    ++posted_;
    return std::nullopt;
  }
  Bucket* holder = nullptr;
  Kept oldest;
  for (const uint32_t source : receive.sources) {
    const Key key{receive.descriptor.lane, source, receive.tag};
    Bucket& chain = bucket(key);
    const Kept message = find_kept(chain, key);
    if (message == chain.kept.end() || (holder && message->arrival >= oldest->arrival)) continue;
    holder = &chain;
    oldest = message;
  }
  if (holder) return take(*holder, oldest);
  posted_any_.push_back(&receive);
  ++posted_;
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

// Allocates nothing: a group must end without memory, too.
void Matcher::clear() {
  for (Bucket& bucket : buckets_) {
    bucket.first = bucket.last = nullptr;
    bucket.kept.clear();
  }
  entries_ = posted_ = 0;
  posted_any_.clear();
}

}  // namespace floe
