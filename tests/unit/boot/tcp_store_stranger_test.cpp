// What anybody on the network may do to the store's port, and what a client may meet there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <random>
#include <thread>

#include "boot/tcp_wire.h"
#include "store_fixture.h"

namespace floe {
namespace {

using test::open_descriptors;
using test::read_until_closed;
using test::send_bytes;
using test::soon;
using testing::AllOf;
using testing::HasSubstr;

class TcpStoreStranger : public test::TcpStoreTest {
 protected:
  void SetUp() override {
    TcpStoreTest::SetUp();
    rank_ = client();
    ASSERT_TRUE(rank_->set("k", "v").ok());
  }
  // The ranks' store works as if nothing had happened, for those that are there and for new ones.
  void expect_unharmed() {
    EXPECT_EQ(value(*rank_, "k"), "v");
    EXPECT_EQ(value(*client(), "k"), "v");
  }
  std::unique_ptr<TcpStore> rank_;
};

std::string hello() {
  std::string bytes;
  tcp::append(bytes, tcp::Hello());
  return bytes;
}

std::string request(uint32_t operation, uint32_t key_bytes, uint32_t value_bytes, std::string_view body) {
  tcp::Request header;
  header.operation = operation;
  header.key_bytes = key_bytes;
  header.value_bytes = value_bytes;
  std::string bytes = hello();
  tcp::append(bytes, header);
  return bytes.append(body);
}

TEST_F(TcpStoreStranger, AnythingButAHelloIsClosedWithoutAnAnswer) {
  std::mt19937 random(1);
  std::string noise(1 << 20, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  tcp::Hello future;
  future.version = 2;
  std::string other_version;
  tcp::append(other_version, future);
  const std::string http = "GET / HTTP/1.1\r\nHost: rank0\r\n\r\n";
  for (const std::string& bytes : {noise, http, other_version, std::string(16, '\0')}) {
    const UniqueFd fd = stranger();
    send_bytes(fd, bytes);
    EXPECT_EQ(read_until_closed(fd), "");
  }
  expect_unharmed();
}

TEST_F(TcpStoreStranger, ARequestBeyondItsBoundsIsClosedBeforeItIsRead) {
  constexpr uint32_t kHuge = UINT32_MAX;
  for (const std::string& bytes :
       {request(0, 1, 0, "k"), request(4, 1, 0, "k"), request(kHuge, 1, 0, "k"), request(tcp::kGet, 0, 0, ""),
        request(tcp::kGet, Store::kMaxKey + 1, 0, ""), request(tcp::kGet, kHuge, 0, ""),
        request(tcp::kGet, 1, 1, "kv"), request(tcp::kSet, 1, Store::kMaxValue + 1, ""),
        request(tcp::kSet, 1, kHuge, ""), request(tcp::kSet, kHuge, kHuge, ""),
        request(tcp::kRemove, 1, 1, "kv")}) {
    const UniqueFd fd = stranger();
    send_bytes(fd, bytes);
    EXPECT_EQ(read_until_closed(fd), hello());
  }
  expect_unharmed();
}

TEST_F(TcpStoreStranger, ARequestMayComeInPieces) {
  const UniqueFd fd = stranger();
  for (const char byte : request(tcp::kGet, 1, 0, "k")) send_bytes(fd, {&byte, 1});
  std::string expected = hello();
  tcp::append(expected, tcp::Answer{tcp::kDone, 1});
  expected += 'v';
  std::string seen(expected.size(), '\0');
  ASSERT_EQ(::recv(fd.get(), seen.data(), seen.size(), MSG_WAITALL), static_cast<ssize_t>(seen.size()));
  EXPECT_EQ(seen, expected);
}

TEST_F(TcpStoreStranger, MayCloseOrResetAtAnyPoint) {
  const std::string whole = request(tcp::kGet, 3, 0, "new");
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes)
    for (const bool reset : {false, true}) {
      const UniqueFd fd = stranger();
      send_bytes(fd, std::string_view(whole).substr(0, bytes));
      const linger now{1, 0};
      if (reset) ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
  ASSERT_TRUE(rank_->set("new", "wakes those that were waiting and have gone").ok());
  expect_unharmed();
}

TEST_F(TcpStoreStranger, MayAskForeverWithoutReading) {
  const UniqueFd fd = stranger();
  std::string many = hello();
  for (int i = 0; i < 20'000; ++i) many += request(tcp::kGet, 1, 0, "k").substr(sizeof(tcp::Hello));
  ASSERT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
  send_bytes(fd, many);
  expect_unharmed();
}

void allow_descriptors(rlim_t count) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = count;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0) << "limit " << limit.rlim_max;
}

TEST_F(TcpStoreStranger, AThousandSilentConnectionsKeepNoRankOut) {
  allow_descriptors(2048);
  const size_t before = open_descriptors();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.push_back(stranger());
    if (i % 3 == 0) send_bytes(silent.back(), "floe");  // a slow loris: half a hello
  }
  expect_unharmed();
  EXPECT_LE(open_descriptors(), before + silent.size() + 64 + 4) << "descriptors that the server holds";
  for (const UniqueFd& fd : silent) EXPECT_EQ(read_until_closed(fd), "");
}

TEST_F(TcpStoreStranger, AThousandThatSayHelloAndNothingElseKeepNoRankOut) {
  allow_descriptors(4096);
  const size_t before = open_descriptors();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 1000; ++i) {
    silent.push_back(stranger());
    send_bytes(silent.back(), hello());
  }
  expect_unharmed();
  constexpr size_t kMost = 2 * kRanks + 64, kMostPending = 64;
  EXPECT_LE(open_descriptors(), before + silent.size() + kMost + kMostPending + 4);
  // Ranks that come meanwhile are served, each in the place of one of them.
  std::vector<std::unique_ptr<TcpStore>> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(client());
    EXPECT_EQ(value(*ranks.back(), "k"), "v");
  }
  for (auto& rank : ranks) EXPECT_EQ(value(*rank, "k"), "v") << "one that has asked keeps its place";
}

TEST_F(TcpStoreStranger, WithoutDescriptorsTheServerWaitsForSome) {
  const size_t used = open_descriptors();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd waiting = stranger();
  allow_descriptors(used);
  std::this_thread::sleep_for(Millis(50));
  EXPECT_EQ(value(*rank_, "k"), "v") << "those that are connected are served";
  send_bytes(waiting, hello());
  allow_descriptors(before.rlim_cur);
  std::string answer(sizeof(tcp::Hello), '\0');
  EXPECT_EQ(::recv(waiting.get(), answer.data(), answer.size(), MSG_WAITALL), ssize_t{sizeof(tcp::Hello)});
  EXPECT_EQ(answer, hello());
}

// A listener that says `greeting` to whoever connects and nothing more.
class WrongServer {
 public:
  explicit WrongServer(std::string greeting)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), greeting_(std::move(greeting)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] {
      for (;;) {
        UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!fd.valid()) return;
        send_bytes(fd, greeting_);
        clients_.push_back(std::move(fd));
      }
    });
  }
  ~WrongServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  uint16_t port() const { return port_; }

 private:
  UniqueFd listener_;
  std::string greeting_;
  uint16_t port_ = 0;
  std::vector<UniqueFd> clients_;  // the thread's
  std::thread thread_;
};

TEST(TcpStoreClient, ASilentListenerIsAnErrorAtTheDeadline) {
  const WrongServer silent("");
  const auto store = TcpStore::connect("127.0.0.1", silent.port(), Deadline::in_ms(500));
  EXPECT_EQ(store.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(store.status().message(),
              AllOf(HasSubstr("does not answer"), HasSubstr(std::to_string(silent.port()))));
}

TEST(TcpStoreClient, AnotherServiceIsRecognised) {
  const WrongServer ssh("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n");
  const auto store = TcpStore::connect("127.0.0.1", ssh.port(), Deadline::in_ms(1000));
  EXPECT_EQ(store.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(store.status().message(), AllOf(HasSubstr("not floe's store"), HasSubstr("FLOE_STORE_PORT")));
}

// As when rank 0 has been stopped: its kernel still takes what is sent.
TEST(TcpStoreClient, AServerThatStopsAnsweringIsAnErrorSoonAfterTheDeadline) {
  const WrongServer frozen(hello());
  auto store = TcpStore::connect("127.0.0.1", frozen.port(), soon());
  ASSERT_TRUE(store.ok()) << store.status().message();
  const auto nothing = (*store)->get("k", Deadline::in_ms(50));
  EXPECT_EQ(nothing.status().code(), FLOE_ERR_STORE);
  EXPECT_THAT(nothing.status().message(), AllOf(HasSubstr("'k'"), HasSubstr("does not answer")));
}

TEST(TcpStoreClient, BelievesNoAnswerBeyondItsBounds) {
  for (const tcp::Answer answer :
       {tcp::Answer{tcp::kDone, UINT32_MAX}, tcp::Answer{tcp::kDone, 4097}, tcp::Answer{99, 0}}) {
    std::string bytes = hello();
    tcp::append(bytes, answer);
    const WrongServer liar(bytes);
    auto store = TcpStore::connect("127.0.0.1", liar.port(), soon());
    ASSERT_TRUE(store.ok()) << store.status().message();
    const auto value = (*store)->get("k", soon());
    EXPECT_EQ(value.status().code(), FLOE_ERR_STORE);
    EXPECT_THAT(value.status().message(), HasSubstr("makes no sense"));
  }
}

}  // namespace
}  // namespace floe
