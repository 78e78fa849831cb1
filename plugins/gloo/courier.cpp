#include "courier.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "errors.h"

namespace floe::gloo_transport {
namespace {

constexpr uint64_t kHeaderTag = kCourierTags;
constexpr uint64_t kDataTag = kCourierTags + 1;
constexpr uint64_t kReplyTags = kCourierTags + (1ULL << 32);  // and 32 bits
// Up to here a copy is cheaper than a second message.
constexpr size_t kWithHeader = 4096;
constexpr size_t kMostEarly = 256;  // from one source: 1 MiB
// Gloo's ReduceScatterHalvingDoubling overwrites what it has sent without waiting. Gloo's tcp has handed some
// megabytes to the kernel by then (net.ipv4.tcp_wmem), so this much is copied.
constexpr size_t kCopied = 4 << 20;

[[noreturn]] void throw_last(int rank, const char* what, int peer) {
  throw ::gloo::IoException("floe: rank " + std::to_string(rank) + ": " + what + " rank " +
                            std::to_string(peer) + ": " + floe_last_error());
}

// The operation goes on.
void drop(floe_request_t* request) { (void)floe_request_free(request); }

}  // namespace

struct Courier::Posted {
  std::shared_ptr<Inbox> inbox;
  std::shared_ptr<std::vector<char>> memory;  // that the operation uses
  std::function<void()> action;

  static void completed(void* user, floe_status_t status, const char* message) {
    const std::unique_ptr<Posted> self(static_cast<Posted*>(user));
    if (status == FLOE_OK && !self->action) return;
    const std::lock_guard lock(self->inbox->mutex);
    self->inbox->completions.push_back({status, status == FLOE_OK ? "" : message, std::move(self->action)});
    self->inbox->arrived.notify_one();
  }
};

Courier::Courier(floe_comm_t* comm, int rank, int size)
    : comm_(comm),
      rank_(rank),
      process_(getpid()),
      inbox_(std::make_shared<Inbox>()),
      sources_(static_cast<size_t>(size)),
      order_(static_cast<size_t>(size)) {
  thread_ = std::thread([this] { run(); });
  const std::lock_guard lock(mutex_);
  for (uint32_t source = 0; source < sources_.size(); ++source) {
    if (source != static_cast<uint32_t>(rank)) listen(source);
  }
}

Courier::~Courier() { stop(); }

void Courier::stop() {
  if (!thread_.joinable()) return;
  if (getpid() != process_) return thread_.detach();  // a forked child does not have it
  for (size_t peer = 0; peer < order_.size(); ++peer) {
    if (static_cast<int>(peer) == rank_) continue;
    try {
      drop(post(static_cast<int>(peer), {Kind::kGoodbye, 0, 0, 0, 0, 0}, nullptr));
    } catch (const ::gloo::IoException&) {
      break;  // the communicator has failed, as the others know
    }
  }
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->stopping = true;
    inbox_->arrived.notify_one();
  }
  thread_.join();
}

void Courier::run() {
  // What has completed before stop() is done: a source may wait for what tell_source() owes it.
  for (bool stopping = false; !stopping;) {
    std::deque<Completion> completions;
    {
      std::unique_lock lock(inbox_->mutex);
      inbox_->arrived.wait(lock, [&] { return inbox_->stopping || !inbox_->completions.empty(); });
      completions.swap(inbox_->completions);
      stopping = inbox_->stopping;
    }
    const std::lock_guard lock(mutex_);
    for (const Completion& completion : completions) {
      if (completion.status != FLOE_OK)
        fail(completion.message);
      else if (completion.action)
        completion.action();
    }
  }
}

void Courier::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

void Courier::on_complete(floe_request_t* request, std::shared_ptr<std::vector<char>> memory,
                          std::function<void()> action) {
  auto* posted = new Posted{inbox_, std::move(memory), std::move(action)};
  if (floe_request_on_complete(request, &Posted::completed, posted) != FLOE_OK) delete posted;
}

void Courier::listen(uint32_t source) {
  Source& from = sources_[source];
  if (from.listening || from.gone || from.early.size() >= kMostEarly || !failure_.empty()) return;
  if (!from.letter) from.letter = std::make_shared<std::vector<char>>(sizeof(Header) + kWithHeader);
  floe_request_t* request = nullptr;
  if (floe_recv(comm_, from.letter->data(), from.letter->size(), FLOE_UINT8, source, kHeaderTag, &request) !=
      FLOE_OK) {
    return fail(floe_last_error());
  }
  from.listening = true;
  const std::shared_ptr<floe_request_t> owned(request, &drop);
  on_complete(request, from.letter, [this, source, owned] { read_letter(source, owned.get()); });
}

void Courier::read_letter(uint32_t source, floe_request_t* request) {
  Source& from = sources_[source];
  from.listening = false;
  floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
  if (floe_request_info(request, &info) != FLOE_OK) return fail(floe_last_error());
  Message message{source, {}, {}};
  if (info.bytes >= sizeof(Header)) {
    const auto end = from.letter->begin() + static_cast<ptrdiff_t>(info.bytes);
    message.data.assign(from.letter->begin() + sizeof(Header), end);
    std::memcpy(&message.header, from.letter->data(), sizeof(Header));
  }
  const size_t expected = message.header.bytes <= kWithHeader ? message.header.bytes : 0;
  const bool known = message.header.kind <= Kind::kGoodbye;
  const bool data_fits = message.header.kind == Kind::kGet || message.data.size() == expected;
  if (info.bytes < sizeof(Header) || !known || !data_fits) {
    (void)floe_comm_abort(comm_);
    return fail("rank " + std::to_string(source) + " sent a header that makes no sense");
  }
  receive(std::move(message));
  listen(source);
}

void Courier::receive(Message message) {
  const Kind kind = message.header.kind;
  Source& from = sources_[message.source];
  if (kind == Kind::kGoodbye) {
    from.gone = true;
    return;
  }
  if (kind == Kind::kGet) return answer_get(message);
  if (!from.early.empty() || !deliver(message)) from.early.push_back(std::move(message));
}

bool Courier::deliver(const Message& message) {
  if (message.header.kind == Kind::kPut) {
    const auto target = exposed(message);
    if (!target) return true;
    accept(message, target,
           [this, message] { answer(message.source, message.header.reply, nullptr, 0, {}); });
    return true;
  }
  const auto slot = slots_.find({message.source, message.header.slot});
  if (slot == slots_.end()) return false;
  const auto target = slot->second;
  accept(message, target, [this, target] {
    ++target->ready;
    changed_.notify_all();
  });
  return true;
}

bool Courier::inside(const Message& message, const Target& target) {
  const Header& header = message.header;
  if (header.offset <= target.bytes && header.bytes <= target.bytes - header.offset) return true;
  (void)floe_comm_abort(comm_);
  fail("rank " + std::to_string(message.source) + " reaches for " + std::to_string(header.bytes) +
       " bytes at offset " + std::to_string(header.offset) + " of a buffer of " +
       std::to_string(target.bytes));
  return false;
}

void Courier::accept(const Message& message, const std::shared_ptr<Target>& target,
                     std::function<void()> done) {
  if (!inside(message, *target)) return;
  const Header& header = message.header;
  if (header.bytes <= kWithHeader) {
    std::copy(message.data.begin(), message.data.end(), target->data + header.offset);
    return done();
  }
  floe_request_t* request = nullptr;
  if (floe_recv(comm_, target->data + header.offset, header.bytes, FLOE_UINT8, message.source, kDataTag,
                &request) != FLOE_OK) {
    return fail(floe_last_error());
  }
  ++target->in_use;
  on_complete(request, {}, [target, done = std::move(done)] {
    --target->in_use;
    done();
  });
  drop(request);
}

std::shared_ptr<Target> Courier::exposed(const Message& message) {
  const auto found = exposed_.find(message.header.key);
  if (found != exposed_.end() && message.header.reply - kReplyTags <= UINT32_MAX) return found->second;
  (void)floe_comm_abort(comm_);
  fail("rank " + std::to_string(message.source) + " has the key of a buffer that is no more");
  return nullptr;
}

void Courier::answer_get(const Message& message) {
  const auto target = exposed(message);
  if (!target || !inside(message, *target)) return;
  ++target->in_use;
  answer(message.source, message.header.reply, target->data + message.header.offset, message.header.bytes,
         [target] { --target->in_use; });
}

void Courier::answer(uint32_t source, uint64_t tag, const void* data, size_t bytes,
                     std::function<void()> done) {
  floe_request_t* request = nullptr;
  if (floe_send(comm_, data, bytes, FLOE_UINT8, source, tag, &request) != FLOE_OK) {
    return fail(floe_last_error());
  }
  on_complete(request, {}, std::move(done));
  drop(request);
}

void Courier::open(int peer, int slot, const std::shared_ptr<Target>& target) {
  const auto source = static_cast<uint32_t>(peer);
  const std::lock_guard lock(mutex_);
  if (!slots_.emplace(std::pair(source, slot), target).second) {
    throw ::gloo::InvalidOperationException("floe: rank " + std::to_string(rank_) + ": slot " +
                                            std::to_string(slot) + " of rank " + std::to_string(peer) +
                                            " has a receive buffer already");
  }
  auto& early = sources_[source].early;
  while (!early.empty() && deliver(early.front())) early.pop_front();
  listen(source);
}

bool Courier::close(int peer, int slot) {
  const std::lock_guard lock(mutex_);
  const auto found = slots_.extract({static_cast<uint32_t>(peer), slot});
  return found.empty() || found.mapped()->in_use == 0 || !failure_.empty();
}

bool Courier::wait(Target& target, std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return target.ready > 0 || !failure_.empty(); };
  // Half a century: now + timeout must not overflow.
  changed_.wait_for(lock, std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365 * 50)),
                    over);
  if (target.ready > 0) {
    --target.ready;
    return true;
  }
  if (!failure_.empty()) throw ::gloo::IoException("floe: rank " + std::to_string(rank_) + ": " + failure_);
  return false;
}

floe_request_t* Courier::post(int peer, const Header& header, const void* data) {
  const bool together = header.bytes <= kWithHeader && data;
  auto memory = std::make_shared<std::vector<char>>(sizeof header + (together ? header.bytes : 0));
  std::memcpy(memory->data(), &header, sizeof header);
  if (together && header.bytes != 0) std::memcpy(memory->data() + sizeof header, data, header.bytes);
  const auto destination = static_cast<uint32_t>(peer);
  const std::lock_guard lock(order_[destination]);
  floe_request_t* request = nullptr;
  if (floe_send(comm_, memory->data(), memory->size(), FLOE_UINT8, destination, kHeaderTag, &request) !=
      FLOE_OK) {
    throw_last(rank_, "send to", peer);
  }
  on_complete(request, std::move(memory), {});
  if (together || !data) return request;
  drop(request);
  const bool copied = header.kind == Kind::kWrite && header.bytes <= kCopied;
  if (copied) {
    const char* const first = static_cast<const char*>(data);
    memory = std::make_shared<std::vector<char>>(first, first + header.bytes);
    data = memory->data();
  }
  if (floe_send(comm_, data, header.bytes, FLOE_UINT8, destination, kDataTag, &request) != FLOE_OK) {
    throw_last(rank_, "send to", peer);
  }
  if (copied) on_complete(request, std::move(memory), {});
  return request;
}

floe_request_t* Courier::write(int peer, int slot, const void* data, size_t bytes, size_t remote_offset) {
  // Without bytes there may be no memory: any is as good.
  return post(peer, {Kind::kWrite, slot, 0, remote_offset, bytes, 0}, bytes == 0 ? &slot : data);
}

void Courier::tell_source(const std::shared_ptr<floe_request_t>& receive, uint64_t tag) {
  on_complete(receive.get(), {}, [this, receive, tag] {
    floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
    if (floe_request_info(receive.get(), &info) != FLOE_OK) return fail(floe_last_error());
    answer(info.source, tag, nullptr, 0, {});
  });
}

uint64_t Courier::expose(const std::shared_ptr<Target>& target) {
  const std::lock_guard lock(mutex_);
  exposed_.emplace(next_key_, target);
  return next_key_++;
}

bool Courier::hide(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto found = exposed_.extract(key);
  return found.empty() || found.mapped()->in_use == 0 || !failure_.empty();
}

uint64_t Courier::reply_tag() {
  const std::lock_guard lock(mutex_);
  return kReplyTags + next_reply_++;
}

floe_request_t* Courier::put(int peer, uint64_t key, const void* data, size_t bytes, size_t remote_offset) {
  const uint64_t reply = reply_tag();
  floe_request_t* answered = nullptr;
  if (floe_recv(comm_, nullptr, 0, FLOE_UINT8, static_cast<uint32_t>(peer), reply, &answered) != FLOE_OK) {
    throw_last(rank_, "put to", peer);
  }
  drop(post(peer, {Kind::kPut, 0, key, remote_offset, bytes, reply}, bytes == 0 ? &bytes : data));
  return answered;
}

floe_request_t* Courier::get(int peer, uint64_t key, void* data, size_t bytes, size_t remote_offset) {
  const uint64_t reply = reply_tag();
  floe_request_t* answered = nullptr;
  if (floe_recv(comm_, data, bytes, FLOE_UINT8, static_cast<uint32_t>(peer), reply, &answered) != FLOE_OK) {
    throw_last(rank_, "get from", peer);
  }
  drop(post(peer, {Kind::kGet, 0, key, remote_offset, bytes, reply}, nullptr));
  return answered;
}

}  // namespace floe::gloo_transport
