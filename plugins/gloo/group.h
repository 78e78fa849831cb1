// The ranks of a Gloo transport context: one floe communicator, in whichever way Gloo connects it.
#pragma once

#include <floe/floe.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace floe {
class TcpStoreServer;
}

namespace floe::gloo_transport {

class Courier;

class Group {
 public:
  // Throws InvalidOperationException if there is no such rank. `floe` must outlive the group; `host` is the
  // name or address of this host under which the others reach it, used only by connect_pair.
  Group(floe_context_t* floe, int rank, int size, std::string host);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Connects all ranks, found through a store: its callbacks, and where they put what it said when it failed.
  // Throws IoException.
  void connect(const floe_store_t& store, const std::string& store_error, std::chrono::milliseconds timeout);

  // Gloo's other way, pair by pair: every rank gives each other rank its address, and the last connect_pair
  // connects them all, through a store that rank 0 serves meanwhile. All addresses have one size.
  std::vector<char> address();
  void connect_pair(int peer, const std::vector<char>& address, std::chrono::milliseconds timeout);

  bool connected() const { return comm_ != nullptr; }
  // Throws InvalidOperationException before the ranks are connected.
  floe_comm_t* comm() const;
  // Throws InvalidOperationException unless `peer` is another rank of this group.
  void check_peer(int peer) const;
  // Ends all operations on all ranks. Afterwards no buffer is touched any more.
  void abort() const;
  // Started by the first call.
  Courier& courier();

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  struct DestroyComm {
    void operator()(floe_comm_t* comm) const { (void)floe_comm_destroy(comm); }
  };
  std::string who() const;
  void connect_through_rank_0(std::chrono::milliseconds timeout);

  floe_context_t* const floe_;
  const int rank_;
  const int size_;
  const std::string host_;
  std::mutex mutex_;  // of what follows, but for comm_, which is set once and before it is used
  std::unique_ptr<floe_comm_t, DestroyComm> comm_;
  std::unique_ptr<Courier> courier_;
  std::unique_ptr<TcpStoreServer> server_;  // on rank 0, from address() until the ranks are connected
  std::string rank_0_;                      // "host port" of that
  std::set<int> named_;                     // whose addresses have been given to connect_pair
};

}  // namespace floe::gloo_transport
