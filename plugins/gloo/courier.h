// Messages that their receiver has not asked for: writes into bound buffers, put and get.
#pragma once

#include <floe/floe.h>
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace floe::gloo_transport {

// The tags with these 16 bits on top are the courier's, and no slots of unbound buffers. (Gloo's collectives
// have their kind in the highest byte, 0 to 10 today; PyTorch's tags for send and recv have 32 bits.)
constexpr uint64_t kCourierTags = 0xf10eULL << 48;
constexpr bool is_courier_tag(uint64_t tag) { return tag >> 48 == kCourierTags >> 48; }

// Memory that peers write to, and read. The courier's mutex guards the counters.
struct Target {
  char* data;
  size_t bytes;
  size_t ready = 0;   // messages that have arrived and that nobody has waited for yet
  size_t in_use = 0;  // operations of floe
};

// A rank's courier receives headers from all others on a thread of its own, and posts what they announce.
// Small messages come with their header; of those for slots that are not open yet a few are kept, and the
// next stay with their sender. Any thread may call any function. A request returned is the
// caller's. Failures are IoException, with floe's text.
class Courier {
 public:
  Courier(floe_comm_t* comm, int rank, int size);
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  // Tells the others that no more comes from here, and ends the thread. The communicator is then destroyed
  // before the courier is.
  void stop();

  // What `peer` writes to `slot`, or has written already, goes to `target` until close(). Throws
  // InvalidOperationException if the slot is open.
  void open(int peer, int slot, const std::shared_ptr<Target>& target);
  // False if a message was on its way to the memory: the caller then aborts the communicator.
  bool close(int peer, int slot);
  // Waits until a message has arrived in `target`, and takes it. False if the time is up.
  bool wait(Target& target, std::chrono::milliseconds timeout);
  floe_request_t* write(int peer, int slot, const void* data, size_t bytes, size_t remote_offset);

  // When `receive` has completed, sends its source a message of no bytes with `tag`.
  void tell_source(const std::shared_ptr<floe_request_t>& receive, uint64_t tag);

  // Until hide(key) all ranks may put to `target` and get from it.
  uint64_t expose(const std::shared_ptr<Target>& target);
  // As close().
  bool hide(uint64_t key);
  // Completes when the peer's memory has the data.
  floe_request_t* put(int peer, uint64_t key, const void* data, size_t bytes, size_t remote_offset);
  floe_request_t* get(int peer, uint64_t key, void* data, size_t bytes, size_t remote_offset);

 private:
  enum class Kind : uint32_t { kWrite, kPut, kGet, kGoodbye };
  struct Header {
    Kind kind;
    int32_t slot;     // kWrite
    uint64_t key;     // kPut, kGet
    uint64_t offset;  // in the receiver's memory
    uint64_t bytes;
    uint64_t reply;  // kPut, kGet: the tag of the answer
  };
  struct Message {
    uint32_t source;
    Header header;
    std::vector<char> data;  // if it came with the header
  };
  struct Completion {
    floe_status_t status;
    std::string message;
    std::function<void()> action;
  };
  // What has completed. It outlives the courier if floe still has something posted.
  struct Inbox {
    std::mutex mutex;  // a leaf: floe calls back with locks of its own held
    std::condition_variable arrived;
    std::deque<Completion> completions;
    bool stopping = false;
  };
  struct Posted;
  struct Source {
    std::shared_ptr<std::vector<char>> letter;  // what its next header is received into
    bool listening = false;
    bool gone = false;  // has said goodbye
    // The first is for a slot that is not open yet: what follows it waits, too, as in a stream.
    std::deque<Message> early;
  };

  void run();
  void listen(uint32_t source);
  void read_letter(uint32_t source, floe_request_t* request);
  void receive(Message message);
  bool deliver(const Message& message);
  void accept(const Message& message, const std::shared_ptr<Target>& target, std::function<void()> done);
  void answer_get(const Message& message);
  void answer(uint32_t source, uint64_t tag, const void* data, size_t bytes, std::function<void()> done);
  bool inside(const Message& message, const Target& target);
  std::shared_ptr<Target> exposed(const Message& message);
  void on_complete(floe_request_t* request, std::shared_ptr<std::vector<char>> memory,
                   std::function<void()> action);
  floe_request_t* post(int peer, const Header& header, const void* data);
  uint64_t reply_tag();
  void fail(const std::string& why);

  floe_comm_t* const comm_;
  const int rank_;
  const pid_t process_;
  const std::shared_ptr<Inbox> inbox_;
  std::mutex mutex_;  // of what follows; held when floe is called
  std::condition_variable changed_;
  std::vector<Source> sources_;  // by rank
  std::map<std::pair<uint32_t, int>, std::shared_ptr<Target>> slots_;
  std::map<uint64_t, std::shared_ptr<Target>> exposed_;
  uint64_t next_key_ = 1;
  uint32_t next_reply_ = 0;
  std::string failure_;
  std::vector<std::mutex> order_;  // by destination: a header and its data go together
  std::thread thread_;
};

}  // namespace floe::gloo_transport
