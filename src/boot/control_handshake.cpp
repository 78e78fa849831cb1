#include "boot/control_handshake.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>

#include "boot/random.h"

namespace floe::control {
namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take_from(std::string_view bytes, size_t offset = 0) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

constexpr char kCaller = 'c', kCalled = 'd';

}  // namespace

Handshake::Handshake(UniqueFd socket, const Terms& terms, std::optional<uint32_t> to)
    : socket_(std::move(socket)), terms_(terms), caller_(to.has_value()), peer_(to.value_or(0)) {
  mine_.version = terms.version;
  mine_.comm = terms.comm;
  mine_.settings = terms.settings;
  mine_.from = terms.self;
  mine_.to = peer_;
  fill_random(mine_.nonce);
  next_ = caller_ ? Next::kAnswer : Next::kHello;
  if (caller_) append(output_, mine_);
}

Handshake::State Handshake::step() {
  while (state_ == State::kPending && flush()) {
    if (next_ == Next::kNothing)
      state_ = problem_.empty() ? State::kDone : State::kRefused;
    else if (!fill())
      break;
    else if (next_ != Next::kNothing)
      take();
  }
  return state_;
}

// False: the rest must wait.
bool Handshake::flush() {
  while (!output_.empty()) {
    const ssize_t sent = ::send(socket_.get(), output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      output_.erase(0, static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      broken(errno);
    }
  }
  return true;
}

size_t Handshake::expected() const {
  switch (next_) {
    case Next::kHello: return sizeof(Hello);
    case Next::kAnswer: return sizeof(Hello) + sizeof(Proof);
    case Next::kProof: return sizeof(Proof);
    case Next::kWelcome: return sizeof(Welcome);
    case Next::kNothing: break;
  }
  return 0;
}

// Not a byte more than the next message: what follows the last one is the log's. False: the rest must come.
bool Handshake::fill() {
  std::array<char, sizeof(Hello) + sizeof(Proof)> buffer;
  while (input_.size() < expected()) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), expected() - input_.size(), MSG_DONTWAIT);
    if (got > 0) {
      input_.append(buffer.data(), static_cast<size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      return false;
    } else if (got == 0) {
      refuse("it closed the connection, as it does when FLOE_SECRET differs");
      return true;
    } else if (errno != EINTR) {
      broken(errno);
      return true;
    }
  }
  return true;
}

void Handshake::take() {
  switch (next_) {
    case Next::kHello: take_hello(); break;
    case Next::kAnswer: take_answer(); break;
    case Next::kProof: take_proof(); break;
    case Next::kWelcome: take_welcome(); break;
    case Next::kNothing: break;
  }
  input_.clear();
}

void Handshake::broken(int problem) {
  output_.clear();
  refuse(fmt::format("the connection broke: {}", std::strerror(problem)));
}

void Handshake::refuse(std::string why, bool differs) {
  next_ = Next::kNothing;
  problem_ = std::move(why);
  differs_ = differs;
}

bool Handshake::fits() {
  const Hello usual;
  if (theirs_.magic != usual.magic) {
    refuse("what is there does not speak floe's control protocol");
  } else if (theirs_.protocol != usual.protocol) {
    refuse(fmt::format("it speaks version {} of the control protocol, this host {}", theirs_.protocol,
                       usual.protocol),
           true);
  } else if (theirs_.version != terms_.version) {
    refuse(fmt::format("it runs floe {:#x}, this host {:#x}: install one version on all hosts",
                       theirs_.version, terms_.version),
           true);
  } else if (theirs_.comm != terms_.comm) {
    refuse("it belongs to another communicator");
  } else if (theirs_.settings != terms_.settings) {
    refuse("it has read other values of the ranks from the store: is the store used by another job, too?",
           true);
  }
  return problem_.empty();
}

void Handshake::take_hello() {
  theirs_ = take_from<Hello>(input_);
  peer_ = mine_.to = theirs_.from;
  const bool fit = fits();
  if (theirs_.magic != Hello().magic) return;
  if (fit && (theirs_.to != terms_.self || peer_ <= terms_.self || peer_ >= terms_.hosts))
    return refuse("it called another host");
  // Who speaks the protocol is shown what is here, and can then say what differs.
  append(output_, mine_);
  append(output_, fit ? proof_of(kCalled) : Proof{});
  if (fit) next_ = Next::kProof;
}

void Handshake::take_answer() {
  theirs_ = take_from<Hello>(input_);
  if (!fits()) return;
  if (theirs_.from != peer_ || theirs_.to != terms_.self) return refuse("another host answered");
  if (!equal(take_from<Proof>(input_, sizeof(Hello)), proof_of(kCalled)))
    return refuse("it does not know this job's key: FLOE_SECRET must be the same on all ranks", true);
  append(output_, proof_of(kCaller));
  next_ = Next::kWelcome;
}

void Handshake::take_proof() {
  if (!equal(take_from<Proof>(input_), proof_of(kCaller)))
    return refuse("it does not know this job's key: FLOE_SECRET must be the same on all ranks");
  append(output_, kWelcome);
  next_ = Next::kNothing;
}

void Handshake::take_welcome() {
  if (take_from<Welcome>(input_) != kWelcome)
    return refuse("what is there does not speak floe's control protocol");
  next_ = Next::kNothing;
}

Proof Handshake::proof_of(char role) const {
  const Hello& first = caller_ ? mine_ : theirs_;
  const Hello& second = caller_ ? theirs_ : mine_;
  return mac(std::as_bytes(std::span(terms_.key)),
             {std::as_bytes(std::span(&role, 1)), std::as_bytes(std::span(&first, 1)),
              std::as_bytes(std::span(&second, 1))});
}

}  // namespace floe::control
