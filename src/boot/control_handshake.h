// How two hosts make sure of each other before they use a control connection: both prove that they know the
// job's key, neither says anything that helps one who does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"
#include "boot/control_wire.h"
#include "boot/mac.h"

namespace floe::control {

// What must be alike on both sides, and this side's number.
struct Terms {
  uint32_t version = 0;   // floe's
  uint64_t comm = 0;      // the communicator's key
  uint64_t settings = 0;  // digest of what all ranks have announced
  Digest key{};
  uint32_t self = 0;  // this host's number
  uint32_t hosts = 0;
};

class Handshake {
 public:
  enum class State { kPending, kDone, kRefused };

  // `to`: the host that was called; none: somebody has called this one. The socket does not block.
  Handshake(UniqueFd socket, const Terms& terms, std::optional<uint32_t> to);

  // Reads and writes what can be at once.
  State step();

  State state() const { return state_; }
  int fd() const { return socket_.get(); }
  bool wants_to_write() const { return !output_.empty(); }
  // Of kDone.
  uint32_t peer() const { return peer_; }
  UniqueFd take_socket() { return std::move(socket_); }
  // Of kRefused: why.
  const std::string& problem() const { return problem_; }
  // Whether trying again is useless: what the other side is was understood, and does not fit.
  bool differs() const { return differs_; }

 private:
  enum class Next { kHello, kAnswer, kProof, kWelcome, kNothing };

  bool flush();
  bool fill();  // false: more must come
  void take();
  void take_hello();
  void take_answer();
  void take_proof();
  void take_welcome();
  size_t expected() const;
  // Whether the other side's hello fits; false: refused.
  bool fits();
  Proof proof_of(char role) const;
  void broken(int problem);
  void refuse(std::string why, bool differs = false);

  UniqueFd socket_;
  const Terms& terms_;
  const bool caller_;
  uint32_t peer_ = 0;
  State state_ = State::kPending;
  Next next_;
  Hello mine_, theirs_;
  std::string input_, output_;
  std::string problem_;
  bool differs_ = false;
};

}  // namespace floe::control
