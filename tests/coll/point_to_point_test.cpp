// Messages: matching, order, sizes, and that they never queue behind collectives.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "exercise.h"

namespace floe::test {
namespace {

// A message whose every byte tells where it belongs.
std::vector<uint8_t> message(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> data(bytes);
  for (auto& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

floe_status_t send(const Rank& r, const std::vector<uint8_t>& data, uint32_t dest, uint64_t tag,
                   floe_request_t** request = nullptr) {
  return floe_send(r.comm, data.data(), data.size(), FLOE_UINT8, dest, tag, request);
}
floe_status_t recv(const Rank& r, std::vector<uint8_t>& data, uint32_t source, uint64_t tag,
                   floe_request_t** request = nullptr) {
  return floe_recv(r.comm, data.data(), data.size(), FLOE_UINT8, source, tag, request);
}

TEST(Messages, OfEverySizeArrive) {
  run_ranks(2, [](Rank& r) {
    for (const size_t bytes : {0, 1, 63, 64, 65, 4095, 4096, 4097, 65535, 65536, 65537, 1'000'001, 8 << 20}) {
      std::vector<uint8_t> got(bytes);
      if (r.rank == 0) {
        ASSERT_FLOE_OK(send(r, message(bytes, bytes), 1, 5)) << bytes;
      }
      if (r.rank == 1) {
        ASSERT_FLOE_OK(recv(r, got, 0, 5)) << bytes;
        EXPECT_TRUE(got == message(bytes, bytes)) << bytes;
      }
    }
  });
}

TEST(Messages, AreMatchedByTagWhateverTheirOrder) {
  run_ranks(2, [](Rank& r) {
    const std::vector<uint64_t> tags = {7, 0, UINT64_MAX, uint64_t{1} << 63, 8};
    for (const size_t bytes : {10, 300'000}) {
      std::vector<Request> requests(tags.size());
      std::vector<std::vector<uint8_t>> data(tags.size(), std::vector<uint8_t>(bytes));
      for (size_t i = 0; i < tags.size(); ++i) {
        if (r.rank == 0) data[i] = message(bytes, tags[i]);
        const size_t backwards = tags.size() - 1 - i;
        if (r.rank == 0) {
          ASSERT_FLOE_OK(send(r, data[i], 1, tags[i], requests[i].out()));
        } else {
          ASSERT_FLOE_OK(recv(r, data[backwards], 0, tags[backwards], requests[backwards].out()));
        }
      }
      for (auto& request : requests) ASSERT_FLOE_OK(request.wait());
      for (size_t i = 0; r.rank == 1 && i < tags.size(); ++i)
        EXPECT_TRUE(data[i] == message(bytes, tags[i])) << tags[i];
    }
  });
}

TEST(Messages, OfOneTagKeepTheirOrder) {
  run_ranks(2, [](Rank& r) {
    // Short and long ones take different ways, and must not overtake each other.
    constexpr size_t kMessages = 60;
    const auto bytes = [](size_t i) { return i % 3 == 0 ? size_t{200'000} + i : i * 10; };
    std::vector<Request> requests(kMessages);
    std::vector<std::vector<uint8_t>> data;
    for (size_t i = 0; i < kMessages; ++i)
      data.push_back(r.rank == 0 ? message(bytes(i), i) : std::vector<uint8_t>(bytes(i)));
    for (size_t i = 0; i < kMessages; ++i)
      ASSERT_FLOE_OK(r.rank == 0 ? send(r, data[i], 1, 3, requests[i].out())
                                 : recv(r, data[i], 0, 3, requests[i].out()));
    for (auto& request : requests) ASSERT_FLOE_OK(request.wait());
    for (size_t i = 0; i < kMessages; ++i) EXPECT_TRUE(data[i] == message(bytes(i), i)) << i;
  });
}

TEST(Messages, FromAnySourceSayWhoSentThem) {
  run_ranks(4, [](Rank& r) {
    if (r.rank != 0) {
      ASSERT_FLOE_OK(send(r, message(100 * r.rank, r.rank), 0, 9));
      return;
    }
    std::vector<bool> seen(r.size);
    for (uint32_t i = 1; i < r.size; ++i) {
      std::vector<uint8_t> got(1000);
      Request request;
      ASSERT_FLOE_OK(recv(r, got, FLOE_ANY_SOURCE, 9, request.out()));
      ASSERT_FLOE_OK(request.wait());
      floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
      ASSERT_FLOE_OK(floe_request_info(request.get(), &info));
      ASSERT_LT(info.source, r.size);
      EXPECT_EQ(100u * info.source, info.bytes);
      EXPECT_FALSE(seen[info.source]) << "rank " << info.source << " twice";
      seen[info.source] = true;
      got.resize(info.bytes);
      EXPECT_TRUE(got == message(100 * info.source, info.source));
    }
  });
}

TEST(Messages, FromAListLeaveTheOthersAlone) {
  run_ranks(4, [](Rank& r) {
    if (r.rank != 0) {
      ASSERT_FLOE_OK(send(r, message(50'000, r.rank), 0, 9));
      return;
    }
    std::vector<uint8_t> got(50'000);
    for (const std::vector<uint32_t>& sources : {std::vector<uint32_t>{1, 3}, {3, 1}, {2}}) {
      Request request;
      ASSERT_FLOE_OK(floe_recv_any(r.comm, got.data(), got.size(), FLOE_UINT8, sources.data(), sources.size(),
                                   9, request.out()));
      ASSERT_FLOE_OK(request.wait());
      floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
      ASSERT_FLOE_OK(floe_request_info(request.get(), &info));
      EXPECT_NE(sources.end(), std::find(sources.begin(), sources.end(), info.source)) << info.source;
      EXPECT_TRUE(got == message(50'000, info.source));
    }
  });
}

// Nothing more will come of it, although the other one that was listed lives.
TEST(Messages, FromAListEndWhereTheSenderThatWasFoundHasLeft) {
  const auto body = [](Rank& r) {
    std::vector<uint8_t> data(10'000'000);
    if (r.rank == 1) {  // announces it, and leaves
      Request request;
      ASSERT_FLOE_OK(send(r, data, 0, 9, request.out()));
    } else if (r.rank == 2) {
      EXPECT_EQ(FLOE_ERR_PEER, recv(r, data, 0, 1));
    } else {
      const uint32_t sources[] = {1, 2};
      EXPECT_EQ(FLOE_ERR_PEER,
                floe_recv_any(r.comm, data.data(), data.size(), FLOE_UINT8, sources, 2, 9, nullptr));
      EXPECT_NE(nullptr, std::strstr(floe_last_error(), "rank 1")) << floe_last_error();
    }
  };
  run_ranks(3, body, {.timeout_ms = 10'000});
}

TEST(Messages, LargeInBothDirectionsAtOnce) {
  run_ranks(2, [](Rank& r) {
    constexpr size_t kBytes = kSanitized ? 3'000'000 : 20'000'000;
    const uint32_t peer = 1 - r.rank;
    std::vector<uint8_t> got(kBytes);
    const auto sent = message(kBytes, r.rank);
    Request receiving, sending;
    ASSERT_FLOE_OK(send(r, sent, peer, 1, sending.out()));
    ASSERT_FLOE_OK(recv(r, got, peer, 1, receiving.out()));
    ASSERT_FLOE_OK(sending.wait());
    ASSERT_FLOE_OK(receiving.wait());
    EXPECT_TRUE(got == message(kBytes, peer));
  });
}

// Both ranks send first: a send that waits for its receive would hang here only if it were long.
TEST(Messages, ShortSendsCompleteBeforeTheirReceive) {
  run_ranks(2, [](Rank& r) {
    std::vector<uint8_t> got(1000);
    ASSERT_FLOE_OK(send(r, message(1000, r.rank), 1 - r.rank, 1));
    ASSERT_FLOE_OK(recv(r, got, 1 - r.rank, 1));
    EXPECT_TRUE(got == message(1000, 1 - r.rank));
  });
}

TEST(Messages, ThatComeLateReachWhoWaitsForThem) {
  run_ranks(2, [](Rank& r) {
    for (const size_t bytes : {0, 8, 60'000, 300'000})
      for (const uint32_t from : {uint32_t{0}, FLOE_ANY_SOURCE}) {
        if (r.rank == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          const auto data = message(bytes, 1);
          Request request;
          ASSERT_FLOE_OK(send(r, data, 1, 4, request.out()));
          ASSERT_FLOE_OK(request.wait());
          floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
          ASSERT_FLOE_OK(floe_request_info(request.get(), &info));
          EXPECT_EQ(bytes, info.bytes);
          continue;
        }
        std::vector<uint8_t> got(bytes);
        ASSERT_FLOE_OK(recv(r, got, from, 4));
        EXPECT_TRUE(got == message(bytes, 1)) << bytes;
      }
  });
}

// More than a ring holds lies before what the receiver waits for, awake and asleep.
TEST(Messages, ThatNobodyWaitsForLetTheOthersPass) {
  run_ranks(2, [](Rank& r) {
    constexpr size_t kBytes = 60'000, kMessages = 40;
    std::vector<uint8_t> got(kBytes);
    if (r.rank == 0) {
      for (size_t i = 0; i < kMessages; ++i) {
        if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        ASSERT_FLOE_OK(send(r, message(kBytes, i), 1, 2));
      }
      ASSERT_FLOE_OK(send(r, message(kBytes, 100), 1, 1));
      return;
    }
    ASSERT_FLOE_OK(recv(r, got, 0, 1));
    EXPECT_TRUE(got == message(kBytes, 100));
    for (size_t i = 0; i < kMessages; ++i) {
      ASSERT_FLOE_OK(recv(r, got, 0, 2));
      ASSERT_TRUE(got == message(kBytes, i)) << i;
    }
  });
}

// Round the ring, with ranks that are late in turn, and from whoever sends.
TEST(Messages, AreSentAndReceivedInOneCall) {
  for (const uint32_t ranks : {2, 3})
    run_ranks(ranks, [](Rank& r) {
      const uint32_t next = (r.rank + 1) % r.size, previous = (r.rank + r.size - 1) % r.size;
      for (const size_t bytes : {0, 8, 5'000, 60'000, 300'000, 5'000'000})
        for (const uint32_t from : {previous, FLOE_ANY_SOURCE})
          for (uint32_t late = 0; late <= r.size; ++late) {
            if (late == r.rank) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const auto sent = message(bytes, r.rank);
            std::vector<uint8_t> got(bytes);
            ASSERT_FLOE_OK(floe_sendrecv(r.comm, sent.data(), bytes, next, late, got.data(), bytes, from,
                                         late, FLOE_UINT8));
            ASSERT_TRUE(got == message(bytes, previous)) << bytes;
          }
    });
}

// More than any buffer in between holds: the receiver comes late and still gets everything in order.
TEST(Messages, FloodOfUnexpectedOnes) {
  run_ranks(2, [](Rank& r) {
    constexpr size_t kMessages = kSanitized ? 3000 : 6000;
    std::vector<std::vector<uint8_t>> data(kMessages);
    std::vector<Request> requests(kMessages);
    if (r.rank == 0)
      for (size_t i = 0; i < kMessages; ++i) {
        data[i] = message(500, i);
        ASSERT_FLOE_OK(send(r, data[i], 1, i % 10, requests[i].out()));
      }
    ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr)) << "collectives overtake messages";
    if (r.rank == 0) {
      for (auto& request : requests) ASSERT_FLOE_OK(request.wait());
    } else {
      for (size_t tag = 0; tag < 10; ++tag)
        for (size_t i = tag; i < kMessages; i += 10) {
          std::vector<uint8_t> got(500);
          ASSERT_FLOE_OK(recv(r, got, 0, tag));
          ASSERT_TRUE(got == message(500, i)) << i;
        }
    }
  });
}

// Rank 0: irecv, all_reduce; rank 1: all_reduce, isend. Legal, and a trap for engines with one queue.
TEST(Messages, DoNotQueueBehindCollectives) {
  run_ranks(2, [](Rank& r) {
    for (const size_t bytes : {8, 500'000}) {
      std::vector<uint8_t> data(bytes);
      Request request;
      if (r.rank == 0) {
        ASSERT_FLOE_OK(recv(r, data, 1, 4, request.out()));
      }
      Exercise(r, {.count = 1000}, 1).run();
      if (r.rank == 1) {
        data = message(bytes, 1);
        ASSERT_FLOE_OK(send(r, data, 0, 4, request.out()));
      }
      ASSERT_FLOE_OK(request.wait());
      EXPECT_TRUE(data == message(bytes, 1));
    }
  });
}

// The same the other way round: a collective that is waiting lets messages pass.
TEST(Messages, PassACollectiveThatWaits) {
  run_ranks(2, [](Rank& r) {
    std::vector<uint8_t> data(300'000);
    Exercise exercise(r, {.count = 100'000}, 1);
    Request request;
    if (r.rank == 0) {
      ASSERT_FLOE_OK(exercise.start(request.out()));
      ASSERT_FLOE_OK(send(r, message(data.size(), 2), 1, 4));
    } else {
      ASSERT_FLOE_OK(recv(r, data, 0, 4));
      EXPECT_TRUE(data == message(data.size(), 2));
      ASSERT_FLOE_OK(exercise.start(request.out()));
    }
    ASSERT_FLOE_OK(request.wait());
    EXPECT_TRUE(exercise.check());
  });
}

TEST(Messages, TooLongForTheirBufferAreAnErrorThatNamesBothSizes) {
  for (const size_t sent : {101, 400'000})
    run_ranks(2, [&](Rank& r) {
      std::vector<uint8_t> data(r.rank == 0 ? sent : 104, 0xee);
      if (r.rank == 0) {
        Request request;
        ASSERT_FLOE_OK(send(r, data, 1, 4, request.out()));
        request.wait();  // a short one is gone before anyone sees that it is too long
        return;
      }
      EXPECT_EQ(FLOE_ERR_TRUNCATED, floe_recv(r.comm, data.data(), 100, FLOE_UINT8, 0, 4, nullptr));
      const std::string text = floe_last_error();
      EXPECT_NE(text.npos, text.find("100")) << text;
      EXPECT_NE(text.npos, text.find(std::to_string(sent))) << text;
      for (size_t i = 100; i < data.size(); ++i) ASSERT_EQ(0xee, data[i]) << "written behind the buffer";
    });
}

TEST(Messages, ShorterThanTheirBufferSayTheirSize) {
  run_ranks(2, [](Rank& r) {
    for (const size_t bytes : {0, 40, 250'000}) {
      if (r.rank == 0) {
        ASSERT_FLOE_OK(send(r, message(bytes, 3), 1, 4));
      }
      if (r.rank == 1) {
        std::vector<uint8_t> got(300'000, 0xee);
        Request request;
        ASSERT_FLOE_OK(recv(r, got, 0, 4, request.out()));
        ASSERT_FLOE_OK(request.wait());
        floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
        ASSERT_FLOE_OK(floe_request_info(request.get(), &info));
        EXPECT_EQ(bytes, info.bytes);
        EXPECT_EQ(0u, info.source);
        EXPECT_TRUE(std::all_of(got.begin() + static_cast<ptrdiff_t>(bytes), got.end(),
                                [](auto b) { return b == 0xee; }));
        got.resize(bytes);
        EXPECT_TRUE(got == message(bytes, 3));
      }
    }
  });
}

// Everyone to everyone, receives posted in another order than the sends.
TEST(Messages, RandomTrafficOfAllPairs) {
  for (const uint64_t seed : {1, 2, 3})
    run_ranks(5, [&](Rank& r) {
      constexpr uint64_t kTags = 12;
      const auto bytes = [&](uint32_t from, uint32_t to, uint64_t tag) {
        std::mt19937_64 random(seed * 1'000'000 + from * 10'000 + to * 100 + tag);
        return random() % 4 == 0 ? random() % 200'000 : random() % 3000;
      };
      const auto content = [&](uint32_t from, uint32_t to, uint64_t tag) {
        return message(bytes(from, to, tag), from * 1000 + to * 100 + tag);
      };
      struct Transfer {
        uint32_t peer;
        uint64_t tag;
        bool out;
        std::vector<uint8_t> data;
        Request request;
      };
      std::vector<std::unique_ptr<Transfer>> transfers;
      for (uint32_t peer = 0; peer < r.size; ++peer)
        for (uint64_t tag = 0; peer != r.rank && tag < kTags; ++tag)
          for (const bool out : {false, true})
            transfers.push_back(std::make_unique<Transfer>(
                Transfer{peer,
                         tag,
                         out,
                         out ? content(r.rank, peer, tag) : std::vector<uint8_t>(bytes(peer, r.rank, tag)),
                         {}}));
      std::mt19937_64 order(seed * 100 + r.rank);
      std::shuffle(transfers.begin(), transfers.end(), order);
      for (auto& t : transfers)
        ASSERT_FLOE_OK(t->out ? send(r, t->data, t->peer, t->tag, t->request.out())
                              : recv(r, t->data, t->peer, t->tag, t->request.out()));
      std::shuffle(transfers.begin(), transfers.end(), order);
      for (auto& t : transfers) ASSERT_FLOE_OK(t->request.wait());
      for (auto& t : transfers)
        if (!t->out) {
          EXPECT_TRUE(t->data == content(t->peer, r.rank, t->tag)) << t->peer << " tag " << t->tag;
        }
    });
}

}  // namespace
}  // namespace floe::test
