#include "boot/control_connect.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "control_pair.h"

namespace floe {
namespace {

using namespace std::chrono_literals;
using control::Handshake;
using control::Terms;
using testing::AllOf;
using testing::HasSubstr;
using State = Handshake::State;

Terms terms_of(uint32_t self, std::string_view secret = "secret") {
  return {1, 2, 3, mac(secret, "control"), self, 3};
}

struct Met {
  State caller, called;
  std::string caller_problem, called_problem;
};

Met meet(const Terms& caller, const Terms& called, uint32_t to = 0) {
  auto [a, b] = test::tcp_pair();
  Handshake first(std::move(a), caller, to), second(std::move(b), called, std::nullopt);
  for (const Deadline soon = Deadline::in(2s); !soon.passed();) {
    const State one = first.step(), two = second.step();
    if (one != State::kPending) first.take_socket().reset();
    if (two != State::kPending && one != State::kPending) break;
  }
  return {first.state(), second.state(), first.problem(), second.problem()};
}

TEST(ControlHandshake, ThoseWhoKnowTheKeyMeet) {
  const Met met = meet(terms_of(2), terms_of(0));
  EXPECT_EQ(State::kDone, met.caller) << met.caller_problem;
  EXPECT_EQ(State::kDone, met.called) << met.called_problem;
}

TEST(ControlHandshake, AnotherSecretIsRefusedByBoth) {
  const Met met = meet(terms_of(2, "other"), terms_of(0));
  EXPECT_EQ(State::kRefused, met.caller);
  EXPECT_THAT(met.caller_problem, HasSubstr("FLOE_SECRET"));
  EXPECT_EQ(State::kRefused, met.called);
}

TEST(ControlHandshake, ADifferenceIsNamed) {
  Terms other = terms_of(2);
  other.version = 9;
  EXPECT_THAT(meet(other, terms_of(0)).caller_problem, AllOf(HasSubstr("0x1"), HasSubstr("0x9")));
  EXPECT_THAT(meet(other, terms_of(0)).called_problem, AllOf(HasSubstr("0x1"), HasSubstr("0x9")));
  other = terms_of(2);
  other.settings = 9;
  EXPECT_THAT(meet(other, terms_of(0)).caller_problem, HasSubstr("store"));
  other = terms_of(2);
  other.comm = 9;
  EXPECT_EQ(State::kRefused, meet(other, terms_of(0)).called);
}

TEST(ControlHandshake, OnlyHostsBehindTheCalledOneAreTaken) {
  EXPECT_EQ(State::kRefused, meet(terms_of(1), terms_of(0), 2).called) << "it called host 2";
  EXPECT_EQ(State::kRefused, meet(terms_of(0), terms_of(0), 0).called) << "itself";
  EXPECT_EQ(State::kRefused, meet(terms_of(7), terms_of(0), 0).called) << "of three";
}

// Who has recorded a handshake can't repeat it, and who reflects one proves nothing.
TEST(ControlHandshake, WhatWasSaidBeforeProvesNothing) {
  const Terms called = terms_of(0), caller = terms_of(2);
  std::string said;
  for (int round = 0; round < 2; ++round) {
    auto [a, b] = test::tcp_pair();
    Handshake honest(std::move(b), called, std::nullopt);
    if (round == 0) {
      auto [c, d] = test::tcp_pair();
      Handshake first(std::move(c), caller, 0);
      for (int turn = 0; turn < 200 && honest.step() == State::kPending; ++turn) {
        first.step();
        char bytes[256];
        ssize_t got = ::recv(d.get(), bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0) said.append(bytes, static_cast<size_t>(got));
        if (got > 0) (void)::send(a.get(), bytes, static_cast<size_t>(got), 0);
        got = ::recv(a.get(), bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0) (void)::send(d.get(), bytes, static_cast<size_t>(got), 0);
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_EQ(State::kDone, honest.state());
    } else {
      (void)::send(a.get(), said.data(), said.size(), 0);
      for (int turn = 0; turn < 200 && honest.step() == State::kPending; ++turn)
        std::this_thread::sleep_for(1ms);
      EXPECT_EQ(State::kRefused, honest.state());
    }
  }
}

// ---- Hosts, as threads ------------------------------------------------------------------------------------

class Hosts : public testing::Test {
 protected:
  static constexpr uint32_t kHosts = 3;

  Hosts() {
    for (uint32_t host = 0; host < kHosts; ++host) {
      listeners_.push_back(std::move(*ControlListener::create("127.0.0.1", {})));
      peers_.push_back({"node-" + std::to_string(host), listeners_[host].address()});
      terms_.push_back(terms_of(host));
      results_.emplace_back(error(FLOE_ERR_INTERNAL, "not run"));
    }
  }

  void connect(const std::vector<uint32_t>& hosts, Millis longest) {
    std::vector<std::thread> threads;
    for (const uint32_t host : hosts)
      threads.emplace_back([this, host, longest] {
        results_[host] = connect_hosts(listeners_[host], peers_, terms_[host], Deadline::in(longest),
                                       [] { return Status(); });
      });
    for (std::thread& thread : threads) thread.join();
  }

  void expect_all_connected() {
    for (uint32_t host = 0; host < kHosts; ++host) {
      ASSERT_TRUE(results_[host].ok()) << results_[host].status().message();
      for (uint32_t other = 0; other < kHosts; ++other)
        EXPECT_EQ(host != other, (*results_[host])[other].valid()) << host << " to " << other;
    }
    for (uint32_t host = 0; host < kHosts; ++host)
      for (uint32_t other = 0; other < host; ++other) {
        char byte = static_cast<char>(host);
        EXPECT_EQ(1, ::send((*results_[host])[other].get(), &byte, 1, 0));
        byte = 0;
        std::this_thread::sleep_for(5ms);
        EXPECT_EQ(1, ::recv((*results_[other])[host].get(), &byte, 1, 0));
        EXPECT_EQ(static_cast<char>(host), byte);
      }
  }

  UniqueFd stranger(uint32_t host) {
    const std::string& address = peers_[host].address;
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(' ')))));
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(0, ::connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at));
    return fd;
  }

  std::vector<ControlListener> listeners_;
  std::vector<ControlPeer> peers_;
  std::vector<Terms> terms_;
  std::vector<Result<std::vector<UniqueFd>>> results_;
};

TEST_F(Hosts, EachPairGetsOneConnection) {
  connect({0, 1, 2}, 10s);
  expect_all_connected();
}

TEST_F(Hosts, StrangersDoNotMatter) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(stranger(static_cast<uint32_t>(i) % kHosts));
  for (int i = 0; i < 20; ++i) {
    const std::string garbage(static_cast<size_t>(i) * 20, 'f');
    (void)::send(stranger(0).get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  connect({0, 1, 2}, 20s);
  expect_all_connected();
}

TEST_F(Hosts, WhoIsMissingIsNamed) {
  connect({0, 2}, 500ms);
  ASSERT_FALSE(results_[0].ok());
  EXPECT_EQ(FLOE_ERR_TIMEOUT, results_[0].status().code());
  EXPECT_THAT(results_[0].status().message(), AllOf(HasSubstr("node-1"), Not(HasSubstr("to node-2"))));
  EXPECT_THAT(results_[2].status().message(), AllOf(HasSubstr("node-1"), HasSubstr("127.0.0.1")));
}

TEST_F(Hosts, ADifferentSecretIsAnErrorAtOnce) {
  terms_[2].key = mac("another", "control");
  connect({0, 1, 2}, 3s);
  EXPECT_EQ(FLOE_ERR_MISMATCH, results_[2].status().code());
  EXPECT_THAT(results_[2].status().message(), AllOf(HasSubstr("node-2"), HasSubstr("FLOE_SECRET")));
}

TEST_F(Hosts, PortsComeFromTheRange) {
  const auto first = ControlListener::create("127.0.0.1", {47110, 47111});
  const auto second = ControlListener::create("127.0.0.1", {47110, 47111});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->address(), second->address());
  const auto third = ControlListener::create("127.0.0.1", {47110, 47111});
  ASSERT_FALSE(third.ok());
  EXPECT_THAT(third.status().message(), HasSubstr("FLOE_PORT_RANGE='47110-47111'"));
}

}  // namespace
}  // namespace floe
