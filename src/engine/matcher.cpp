#include "engine/matcher.h"

#include <algorithm>

#include "engine/messenger.h"

namespace floe {

size_t Matcher::Hash::operator()(const Key& key) const {
  uint64_t x = key.tag * 0x9e3779b97f4a7c15 + key.source * 0xbf58476d1ce4e5b9 + key.lane;
  return x ^ x >> 29;
}

Transfer* Matcher::match(const Key& message) {
  const auto exact = posted_.find(message);
  const auto any = std::find_if(posted_any_.begin(), posted_any_.end(), [&](const Posted& p) {
    return p.receive->descriptor.lane == message.lane && p.receive->tag == message.tag &&
           std::find(p.receive->sources.begin(), p.receive->sources.end(), message.source) !=
               p.receive->sources.end();
  });
  const bool have_exact = exact != posted_.end();
  if (any != posted_any_.end() && (!have_exact || any->order < exact->second.front().order)) {
    Transfer* const receive = any->receive;
    posted_any_.erase(any);
    return receive;
  }
  if (!have_exact) return nullptr;
  Transfer* const receive = exact->second.front().receive;
  exact->second.pop_front();
  if (exact->second.empty()) posted_.erase(exact);
  return receive;
}

void Matcher::keep(const Key& key, Unexpected message) {
  message.arrival = ++order_;
  unexpected_[key].push_back(std::move(message));
}

std::optional<Unexpected> Matcher::take(const Key& key) {
  const auto found = unexpected_.find(key);
  if (found == unexpected_.end()) return std::nullopt;
  Unexpected message = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) unexpected_.erase(found);
  return message;
}

std::optional<Unexpected> Matcher::post(Transfer& receive) {
  const uint8_t lane = receive.descriptor.lane;
  if (receive.sources.empty()) {
    const Key key{lane, receive.peer, receive.tag};
    if (auto message = take(key)) return message;
    posted_[key].push_back({&receive, ++order_});
    return std::nullopt;
  }
  const Key* oldest = nullptr;
  uint64_t arrival = 0;
  for (const uint32_t source : receive.sources) {
    const auto found = unexpected_.find({lane, source, receive.tag});
    if (found != unexpected_.end() && (!oldest || found->second.front().arrival < arrival)) {
      oldest = &found->first;
      arrival = found->second.front().arrival;
    }
  }
  if (oldest) return take(Key(*oldest));
  posted_any_.push_back({&receive, ++order_});
  return std::nullopt;
}

void Matcher::clear() {
  posted_.clear();
  posted_any_.clear();
  unexpected_.clear();
}

}  // namespace floe
