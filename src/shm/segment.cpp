#include "shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#include "base/cpu.h"

namespace floe {
namespace {

constexpr uint64_t kMagic = 0x32746e656d676573;  // "segment2"
constexpr size_t kPage = 4096;

constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Segments that this process owns, by nonce: how a rank that is a thread of this process finds its peer's
// mapping.
class OwnSegments {
 public:
  static OwnSegments& instance() {
    static OwnSegments* const registry = new OwnSegments;  // leaked: used until the last thread ends
    return *registry;
  }
  void add(const std::shared_ptr<Segment>& segment) {
    const std::lock_guard lock(mutex_);
    std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
    segments_[segment->header().nonce] = segment;
  }
  std::shared_ptr<Segment> find(uint64_t nonce) {
    const std::lock_guard lock(mutex_);
    const auto found = segments_.find(nonce);
    return found == segments_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<Segment>> segments_;
};

// Touches every page now, so that no operation pays for page faults. Not fatal: an old kernel faults later.
void populate(std::byte* base, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  ::madvise(base, bytes, MADV_POPULATE_WRITE);
#else
  (void)base, (void)bytes;
#endif
}

Result<std::byte*> map(int fd, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return system_error(fmt::format("mapping a shared segment of {} bytes", bytes), errno);
  // A forked child must neither keep the segment alive nor write to it.
  ::madvise(memory, bytes, MADV_DONTFORK);
  return static_cast<std::byte*>(memory);
}

}  // namespace

HostVote::Record HostVote::read() const {
  // Acquire: pairs with the releases below, of a writer that has died or left since.
  const uint64_t word = accepted.load(std::memory_order_acquire);
  const Value& value = values[word & 1];
  return {promised.load(std::memory_order_acquire), word >> 1, value.attempt, value.ranks};
}

void HostVote::promise(uint64_t ballot) { promised.store(ballot, std::memory_order_release); }

void HostVote::accept(uint64_t ballot, uint64_t attempt, const RankSet& ranks) {
  promise(ballot);
  const uint64_t free = ~accepted.load(std::memory_order_relaxed) & 1;
  values[free] = {attempt, ranks};
  accepted.store(ballot << 1 | free, std::memory_order_release);  // at once: its writer may die at any moment
}

SegmentLayout::SegmentLayout(uint32_t n) : ranks(n) {
  // At most 4 MiB per rank up to 8 ranks: 1 MiB of blocks, rings and outbox. Both are larger than a
  // second-level cache: what is overwritten while it still lies in the reader's takes up to three times as
  // long. Of the rings' part the swap buffers get up to four tenths, as each has room for a packet: with four
  // sevenths, or one, messages that go one way round 8 ranks on 2 CPUs took 10 % longer.
  // Two ranks have room for packets of 256 KiB: with 128 sendrecv of 192 KiB to 1 MiB takes up to 1.3 times
  // as long, with 192 messages of 1 and 2 MiB up to 1.13 times (Zen 5). Their blocks lie in the outbox, so
  // that it has half as much again, and the ring what is left of 4 MiB: broadcast, gather, scatter and reduce
  // of 128 KiB to 1 MiB are 1.03 to 1.5 times as fast, pingpong of 128 KiB to 4 MiB 1.06 to 1.14 (Zen 3; two
  // ranks only: three and four on two CPUs lost up to a fifth with a longer outbox).
  constexpr size_t kRings = size_t{1450} << 10, kOutbox = size_t{1030} << 10, kPacket = size_t{64} << 10;
  constexpr size_t kRingOfTwo = size_t{1304} << 10, kOutboxOfTwo = size_t{1548} << 10;
  constexpr size_t kPacketOfTwo = size_t{256} << 10;
  const size_t peers = n - 1;
  // Two ranks' four blocks are to stay in an Intel's second-level cache with what goes into them: with 128
  // KiB, not 512, all_reduce of 1, 2, 4 and 16 MiB is 1.3, 1.2, 1.2 and 1.1 times as fast (Emerald Rapids);
  // with 64 and 256 up to a tenth slower. On a Zen 4 smaller ones only lose, as does 1 MiB of 3 ranks that
  // share CPUs.
  const size_t most = n == 2 && is_intel() ? size_t{128} << 10 : size_t{512} << 10;
  block_bytes = std::clamp(size_t{512 << 10} / peers / kPage * kPage, size_t{16} << 10, most);
  swap_bytes = n == 2 ? kPacketOfTwo : std::min(kRings / peers / 10, kPacket) / kSmallStagger * kSmallStagger;
  if (swap_bytes < kSmallestSwap) swap_bytes = 0;
  const size_t swaps_bytes = kSwapBuffers * swap_distance();
  ring_bytes =
      n == 2 ? kRingOfTwo : std::max((kRings / peers - swaps_bytes) / kPage * kPage, size_t{16} << 10);
  outbox_bytes = n == 2 ? kOutboxOfTwo : kOutbox;
  cursors = round_up(sizeof(SegmentHeader), kPage);
  values = round_up(cursors + n * sizeof(RingCursors), kPage);
  small = round_up(values + kValues * kValueBytes, kPage);
  exchange = round_up(small + narrow_offset(1, kSmallSlots, kLineSlot), kPage);
  lanes = round_up(exchange + kExchangeBytes + kSmallStagger, kPage);
  blocks = round_up(lanes + peers * lane_bytes(), kPage);
  outbox = n == 2 ? blocks : blocks + peers * blocks_bytes();
  total = outbox + outbox_bytes;
}

Result<std::shared_ptr<Segment>> Segment::create(uint32_t ranks, uint32_t owner, uint64_t nonce) {
  if (ranks > SegmentLayout::kMostRanks)
    return error(FLOE_ERR_UNSUPPORTED, "{} ranks on this host: shared memory carries at most {}", ranks,
                 SegmentLayout::kMostRanks);
  const SegmentLayout layout(ranks);
  UniqueFd fd(::memfd_create("floe-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return system_error("memfd_create for a shared segment", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(layout.total)) != 0)
    return system_error(fmt::format("a shared segment of {} bytes", layout.total), errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error("sealing a shared segment", errno);
  auto base = map(fd.get(), layout.total);
  if (!base.ok()) return base.status();
  populate(*base, layout.total);

  std::shared_ptr<Segment> segment(new Segment(std::move(fd), layout, *base, owner));
  SegmentHeader& header = segment->header();  // zeros are the right initial value of every atomic
  header.magic = kMagic;
  header.nonce = nonce;
  header.ranks = ranks;
  header.owner = owner;
  header.block_bytes = layout.block_bytes;
  header.pid = ::getpid();
  header.nonce_at = reinterpret_cast<uint64_t>(&header.nonce);
  OwnSegments::instance().add(segment);
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::attach(UniqueFd fd, uint32_t ranks, uint32_t owner,
                                                 uint64_t nonce) {
  if (auto own = OwnSegments::instance().find(nonce)) return own;
  const SegmentLayout layout(ranks);
  struct stat info {};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (::fstat(fd.get(), &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      info.st_size != static_cast<off_t>(layout.total))
    return error(FLOE_ERR_SYSTEM, "a peer's shared segment is not a sealed memfd of {} bytes", layout.total);
  auto base = map(fd.get(), layout.total);
  if (!base.ok()) return base.status();
  populate(*base, layout.total);
  fd.reset();
  std::shared_ptr<Segment> segment(new Segment(UniqueFd(), layout, *base, owner));
  const SegmentHeader& header = segment->header();
  if (header.magic != kMagic || header.nonce != nonce || header.ranks != ranks || header.owner != owner)
    return error(FLOE_ERR_SYSTEM, "a peer's shared segment does not hold the nonce that the peer published");
  if (header.block_bytes != layout.block_bytes)
    return error(
        FLOE_ERR_ENVIRONMENT,
        "local rank {} takes its CPU for another make than this rank does, and uses blocks of {} bytes, "
        "not {}: run both on the machine itself, or both in the same emulator",
        owner, header.block_bytes, layout.block_bytes);
  return segment;
}

Segment::~Segment() { ::munmap(base_, layout_.total); }

}  // namespace floe
