// Gloo's transport interface as one of its revisions lays it out in memory, declared here because the PyTorch
// wheel embeds Gloo but ships none of its headers. FLOE_GLOO_REVISION says which (README.md lists them):
// what names a class of FLOE_GLOO_ABI is compiled once for each.
//
// Invariant: the order of the virtual functions and the offsets of the members are Gloo's. The host calls
// through the vtables and reads some members inline; it never sees the names, so these live in a
// namespace of ours. layout.cpp checks the order against the host before any object reaches it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#if FLOE_GLOO_REVISION == 0
#define FLOE_GLOO_ABI r0
#elif FLOE_GLOO_REVISION == 2
#define FLOE_GLOO_ABI r2
#elif FLOE_GLOO_REVISION == 3
#define FLOE_GLOO_ABI r3
#elif FLOE_GLOO_REVISION == 4
#define FLOE_GLOO_ABI r4
#else
#error "FLOE_GLOO_REVISION must be 0, 2, 3 or 4"
#endif

namespace floe::gloo_abi::FLOE_GLOO_ABI {

using Millis = std::chrono::milliseconds;

// For `timeout`: the context's.
inline constexpr Millis kUnsetTimeout{-1};
// For `nbytes`: from the offset to the end of the buffer.
inline constexpr size_t kRestOfBuffer = SIZE_MAX;

#if FLOE_GLOO_REVISION >= 2
// The host's; floe calls set, and get when wait has returned, or wait_get. In R2 others may follow these.
class IStore {
 public:
  virtual ~IStore() = default;
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
#if FLOE_GLOO_REVISION >= 3
  virtual std::vector<char> wait_get(const std::string& key, const Millis& timeout) = 0;
#endif
  virtual void wait(const std::vector<std::string>& keys, const Millis& timeout) = 0;
#if FLOE_GLOO_REVISION >= 3
  virtual bool has_v2_support() = 0;
  virtual std::vector<std::vector<char>> multi_get(const std::vector<std::string>& keys) = 0;
  virtual void multi_set(const std::vector<std::string>& keys,
                         const std::vector<std::vector<char>>& values) = 0;
  virtual void append(const std::string& key, const std::vector<char>& value) = 0;
  virtual int64_t add(const std::string& key, int64_t value) = 0;
#endif
};
#endif

class Address {
 public:
  virtual ~Address() = default;
  virtual std::string str() const = 0;
  virtual std::vector<char> bytes() const = 0;
};

#if FLOE_GLOO_REVISION >= 4
class RemoteKey {
 public:
  RemoteKey(int rank, size_t size) : rank(rank), size(size) {}
  virtual ~RemoteKey() = default;
  virtual std::string serialize() const = 0;

  const int rank;
  const size_t size;
};
#endif

class Buffer {
 public:
  Buffer(int slot, void* ptr, size_t size) : slot_(slot), ptr_(ptr), size_(size) {}
  virtual ~Buffer() = default;
  virtual void setDebug(bool debug) = 0;
  virtual void send(size_t offset, size_t length, size_t roffset) = 0;
  virtual void waitRecv() = 0;
  virtual void waitSend() = 0;

  int slot_;
  void* ptr_;
  size_t size_;
  bool debug_ = false;
};

class UnboundBuffer {
 public:
  UnboundBuffer(void* ptr, size_t size) : ptr(ptr), size(size) {}
  virtual ~UnboundBuffer() = default;
  virtual bool waitRecv(int* rank, Millis timeout) = 0;
  virtual bool waitSend(int* rank, Millis timeout) = 0;
  virtual void abortWaitRecv() = 0;
  virtual void abortWaitSend() = 0;
  virtual void send(int dstRank, uint64_t slot, size_t offset, size_t nbytes) = 0;
  virtual void recv(int srcRank, uint64_t slot, size_t offset, size_t nbytes) = 0;
  virtual void recv(std::vector<int> srcRanks, uint64_t slot, size_t offset, size_t nbytes) = 0;
#if FLOE_GLOO_REVISION >= 4
  virtual std::unique_ptr<RemoteKey> getRemoteKey() const = 0;
  virtual void put(const RemoteKey& key, uint64_t slot, size_t offset, size_t roffset, size_t nbytes) = 0;
  virtual void get(const RemoteKey& key, uint64_t slot, size_t offset, size_t roffset, size_t nbytes) = 0;
#endif

  void* const ptr;
  const size_t size;
};

class Pair {
 public:
  virtual ~Pair() = default;
  virtual const Address& address() const = 0;
  virtual void connect(const std::vector<char>& bytes) = 0;
  virtual void close() = 0;
  virtual void setSync(bool enable, bool busyPoll) = 0;
  virtual std::unique_ptr<Buffer> createSendBuffer(int slot, void* ptr, size_t size) = 0;
  virtual std::unique_ptr<Buffer> createRecvBuffer(int slot, void* ptr, size_t size) = 0;
#if FLOE_GLOO_REVISION >= 3
  virtual bool isConnected() = 0;
#endif
  virtual void send(UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) = 0;
  virtual void recv(UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t nbytes) = 0;
#if FLOE_GLOO_REVISION >= 4
  virtual void put(UnboundBuffer* buffer, const RemoteKey& key, uint64_t slot, size_t offset, size_t roffset,
                   size_t nbytes) = 0;
  virtual void get(UnboundBuffer* buffer, const RemoteKey& key, uint64_t slot, size_t offset, size_t roffset,
                   size_t nbytes) = 0;
#endif

  int localRank_ = 0;  // written by the host
};

class Context {
 public:
  Context(int rank, int size) : rank(rank), size(size) {}
  virtual ~Context() = default;
  virtual std::unique_ptr<Pair>& getPair(int rank) = 0;
  virtual std::unique_ptr<Pair>& createPair(int rank) = 0;
#if FLOE_GLOO_REVISION == 2
  virtual void createAndConnectAllPairs(IStore& store) = 0;
#elif FLOE_GLOO_REVISION >= 3
  virtual void createAndConnectAllPairs(std::shared_ptr<IStore> store) = 0;
#endif
  virtual std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) = 0;
#if FLOE_GLOO_REVISION >= 4
  virtual std::unique_ptr<RemoteKey> deserializeRemoteKey(const std::string& bytes) = 0;
#endif

  const int rank;
  const int size;
  std::mutex mutex_;  // of the last two members, which only Gloo's own transports use
  std::vector<std::unique_ptr<Pair>> pairs_;
  Millis timeout_{0};  // written by the host, before it connects and whenever it likes
  std::vector<std::byte> pendingOperations_;
  std::vector<std::byte> expectedNotifications_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string str() const = 0;
  virtual const std::string& getPCIBusID() const = 0;
  virtual int getInterfaceSpeed() const = 0;
  virtual bool hasGPUDirect() const = 0;
  virtual std::shared_ptr<Context> createContext(int rank, int size) = 0;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // defined by the compiler for these: no virtual bases
static_assert(sizeof(Device) == 8 && sizeof(Address) == 8);
#if FLOE_GLOO_REVISION >= 4
static_assert(offsetof(RemoteKey, rank) == 8 && offsetof(RemoteKey, size) == 16);
#endif
static_assert(sizeof(Buffer) == 40 && offsetof(Buffer, slot_) == 8 && offsetof(Buffer, ptr_) == 16);
static_assert(offsetof(Buffer, size_) == 24 && offsetof(Buffer, debug_) == 32);
static_assert(sizeof(UnboundBuffer) == 24 && offsetof(UnboundBuffer, ptr) == 8);
static_assert(offsetof(UnboundBuffer, size) == 16);
static_assert(sizeof(Pair) == 16 && offsetof(Pair, localRank_) == 8);
static_assert(sizeof(Context) == 136 && offsetof(Context, rank) == 8 && offsetof(Context, size) == 12);
static_assert(offsetof(Context, mutex_) == 16 && offsetof(Context, pairs_) == 56);
static_assert(offsetof(Context, timeout_) == 80 && offsetof(Context, pendingOperations_) == 88);
static_assert(offsetof(Context, expectedNotifications_) == 112);
#pragma GCC diagnostic pop

}  // namespace floe::gloo_abi::FLOE_GLOO_ABI
