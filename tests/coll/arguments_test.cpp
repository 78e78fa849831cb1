// Wrong arguments: found before anything is sent, said in words, and the communicator goes on.
#include <array>
#include <string>

#include "refusals.h"

namespace floe::test {
namespace {

TEST(Arguments, NullBuffersWithACount) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    expect_refused(bad, floe_all_reduce(r.comm, nullptr, data, 1, FLOE_FLOAT32, FLOE_SUM, nullptr), "send");
    expect_refused(bad, floe_all_reduce(r.comm, data, nullptr, 1, FLOE_FLOAT32, FLOE_SUM, nullptr), "recv");
    expect_refused(bad, floe_broadcast(r.comm, nullptr, 1, FLOE_FLOAT32, 0, nullptr), "buffer");
    expect_refused(bad, floe_all_gather(r.comm, data, nullptr, 1, FLOE_FLOAT32, nullptr), "recv");
    expect_refused(bad, floe_reduce_scatter(r.comm, nullptr, data, 1, FLOE_FLOAT32, FLOE_SUM, nullptr),
                   "send");
    expect_refused(bad, floe_reduce(r.comm, nullptr, data, 1, FLOE_FLOAT32, FLOE_SUM, 0, nullptr), "send");
    if (r.rank == 0)
      expect_refused(bad, floe_reduce(r.comm, data, nullptr, 1, FLOE_FLOAT32, FLOE_SUM, 0, nullptr), "recv");
    expect_refused(bad, floe_send(r.comm, nullptr, 1, FLOE_FLOAT32, 1 - r.rank, 0, nullptr), "buffer");
    expect_refused(bad, floe_recv(r.comm, nullptr, 1, FLOE_FLOAT32, 1 - r.rank, 0, nullptr), "buffer");
  });
}

TEST(Arguments, NullBuffersWithoutACountAreFine) {
  refuse([](Rank& r, float*) {
    EXPECT_FLOE_OK(floe_all_reduce(r.comm, nullptr, nullptr, 0, FLOE_FLOAT32, FLOE_SUM, nullptr));
    EXPECT_FLOE_OK(floe_broadcast(r.comm, nullptr, 0, FLOE_FLOAT32, 1, nullptr));
    EXPECT_FLOE_OK(floe_all_gather(r.comm, nullptr, nullptr, 0, FLOE_FLOAT32, nullptr));
  });
}

TEST(Arguments, UnknownTypesAndOperationsListTheRightOnes) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    expect_refused(bad, floe_all_reduce(r.comm, FLOE_IN_PLACE, data, 1, kBadType, FLOE_SUM, nullptr), "77");
    expect_refused(bad, floe_all_reduce(r.comm, FLOE_IN_PLACE, data, 1, FLOE_FLOAT32, kBadOp, nullptr),
                   "floe_op_t");
    expect_refused(bad, floe_broadcast(r.comm, data, 1, kBadType, 0, nullptr), "77");
    expect_refused(bad, floe_send(r.comm, data, 1, kBadType, 1 - r.rank, 0, nullptr), "77");
    expect_refused(bad, floe_reduce_scatter(r.comm, data, data + 32, 1, FLOE_FLOAT32, kBadOp, nullptr),
                   "floe_op_t");
  });
}

TEST(Arguments, AverageOfIntegersIsUnsupported) {
  refuse([](Rank& r, float* data) {
    for (const auto type : {FLOE_INT8, FLOE_INT64, FLOE_UINT16})
      expect_refused(FLOE_ERR_UNSUPPORTED,
                     floe_all_reduce(r.comm, FLOE_IN_PLACE, data, 1, type, FLOE_AVG, nullptr), "avg");
  });
}

TEST(Arguments, EveryPairOfTypeAndOperationThatIsUndefinedIsRefusedByEveryReduction) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_UNSUPPORTED;
    for (const auto type : all_types())
      for (const auto op : all_ops()) {
        if (supported(type, op)) continue;
        const std::string pair = std::string(op_text(op)) + " of " + type_text(type);
        const char* words = pair.c_str();
        if (op == kPremulSum) {
          floe_op_t handle = FLOE_SUM;
          expect_refused(bad, floe_op_create_premul_sum(r.comm, data, type, &handle), words);
          EXPECT_EQ(FLOE_SUM, handle);
          continue;
        }
        expect_refused(bad, floe_all_reduce(r.comm, FLOE_IN_PLACE, data, 1, type, op, nullptr), words);
        expect_refused(bad, floe_reduce(r.comm, data, data + 8, 1, type, op, 0, nullptr), words);
        expect_refused(bad, floe_reduce_scatter(r.comm, data, data + 16, 1, type, op, nullptr), words);
        const void* const sources[] = {data, data + 8};
        expect_refused(bad, floe_local_reduce(data + 16, sources, 2, 1, type, op), words);
      }
  });
}

// count * element size, or that times the ranks, does not fit 64 bits or memory.
TEST(Arguments, CountsThatOverflow) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    for (const uint64_t count : {UINT64_MAX, UINT64_MAX / 4 + 1, uint64_t{1} << 62}) {
      const std::string words = std::to_string(count);
      const char* w = words.c_str();
      expect_refused(bad,
                     floe_all_reduce(r.comm, FLOE_IN_PLACE, data, count, FLOE_FLOAT32, FLOE_SUM, nullptr), w);
      expect_refused(bad, floe_broadcast(r.comm, data, count, FLOE_FLOAT32, 0, nullptr), w);
      expect_refused(bad, floe_all_gather(r.comm, data, data, count, FLOE_FLOAT32, nullptr), w);
      expect_refused(bad, floe_send(r.comm, data, count, FLOE_FLOAT32, 1 - r.rank, 0, nullptr), w);
    }
    // One part fits, all of them don't.
    const uint64_t part = UINT64_MAX / 8 + 1;
    const std::string words = std::to_string(part);
    expect_refused(bad, floe_all_gather(r.comm, data, data, part, FLOE_FLOAT32, nullptr), words.c_str());
    expect_refused(bad, floe_reduce_scatter(r.comm, data, data, part, FLOE_FLOAT32, FLOE_SUM, nullptr),
                   words.c_str());
  });
}

TEST(Arguments, RanksThatDoNotExist) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    expect_refused(bad, floe_broadcast(r.comm, data, 1, FLOE_FLOAT32, 2, nullptr), "2");
    expect_refused(bad, floe_reduce(r.comm, data, data + 1, 1, FLOE_FLOAT32, FLOE_SUM, 99, nullptr), "99");
    expect_refused(bad, floe_send(r.comm, data, 1, FLOE_FLOAT32, 2, 0, nullptr), "2");
    expect_refused(bad, floe_recv(r.comm, data, 1, FLOE_FLOAT32, 55, 0, nullptr), "55");
    const uint32_t sources[] = {1 - r.rank, 42};
    expect_refused(bad, floe_recv_any(r.comm, data, 1, FLOE_FLOAT32, sources, 2, 0, nullptr), "42");
    expect_refused(bad, floe_recv_any(r.comm, data, 1, FLOE_FLOAT32, nullptr, 0, 0, nullptr), "source");
    float other[4] = {};
    const auto sendrecv = [&](const void* send, uint32_t dest, void* recv, uint32_t source,
                              floe_type_t type) {
      return floe_sendrecv(r.comm, send, 4, dest, 0, recv, 4, source, 0, type);
    };
    expect_refused(bad, sendrecv(nullptr, 1 - r.rank, other, 1 - r.rank, FLOE_FLOAT32), "send");
    expect_refused(bad, sendrecv(data, 1 - r.rank, nullptr, 1 - r.rank, FLOE_FLOAT32), "recv");
    expect_refused(bad, sendrecv(data, 43, other, 1 - r.rank, FLOE_FLOAT32), "43");
    expect_refused(bad, sendrecv(data, 1 - r.rank, other, r.rank, FLOE_FLOAT32), "source");
    expect_refused(bad, sendrecv(data, 1 - r.rank, data, 1 - r.rank, FLOE_FLOAT32), "overlap");
    expect_refused(bad, sendrecv(data, 1 - r.rank, other, 1 - r.rank, static_cast<floe_type_t>(99)), "99");
    expect_refused(bad, floe_send(r.comm, data, 1, FLOE_FLOAT32, r.rank, 0, nullptr), "another rank");
  });
}

// Where a form in place does not exist, or is said otherwise.
TEST(Arguments, InPlaceElsewhere) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    void* const in_place = const_cast<void*>(FLOE_IN_PLACE);
    const uint64_t one[] = {1, 1};
    const auto type = FLOE_FLOAT32;
    const uint32_t other = 1 - r.rank;
    const char* const words = "FLOE_IN_PLACE";
    expect_refused(bad, floe_all_reduce(r.comm, data, in_place, 1, type, FLOE_SUM, nullptr), words);
    expect_refused(bad, floe_all_reduce(r.comm, in_place, in_place, 1, type, FLOE_SUM, nullptr), words);
    expect_refused(bad, floe_reduce(r.comm, data, in_place, 1, type, FLOE_SUM, r.rank, nullptr), words);
    expect_refused(bad, floe_reduce(r.comm, in_place, data, 1, type, FLOE_SUM, other, nullptr), words);
    expect_refused(bad, floe_broadcast(r.comm, in_place, 1, type, 0, nullptr), words);
    expect_refused(bad, floe_all_gather(r.comm, data, in_place, 1, type, nullptr), words);
    expect_refused(bad, floe_reduce_scatter(r.comm, data, in_place, 1, type, FLOE_SUM, nullptr), words);
    expect_refused(bad, floe_all_to_all(r.comm, data, in_place, 1, type, nullptr), words);
    expect_refused(bad, floe_gather(r.comm, data, in_place, 1, type, r.rank, nullptr), words);
    expect_refused(bad, floe_scatter(r.comm, in_place, data, 1, type, r.rank, nullptr), words);
    expect_refused(bad, floe_all_gather_v(r.comm, data, in_place, one, nullptr, type, nullptr), words);
    expect_refused(bad, floe_reduce_scatter_v(r.comm, data, in_place, one, nullptr, type, FLOE_SUM, nullptr),
                   words);
    expect_refused(bad, floe_all_to_all_v(r.comm, data, one, nullptr, in_place, one, nullptr, type, nullptr),
                   words);
    expect_refused(bad, floe_send(r.comm, in_place, 1, type, other, 0, nullptr), words);
    expect_refused(bad, floe_recv(r.comm, in_place, 1, type, other, 0, nullptr), words);
  });
}

TEST(Arguments, BuffersThatOverlap) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    expect_refused(bad, floe_all_reduce(r.comm, data, data + 1, 8, FLOE_FLOAT32, FLOE_SUM, nullptr),
                   "overlap");
    expect_refused(bad, floe_all_gather(r.comm, data + 8 * (1 - r.rank), data, 8, FLOE_FLOAT32, nullptr),
                   "overlap");
  });
}

TEST(Arguments, OfALocalReduction) {
  std::array<float, 12> data{};
  const auto bad = FLOE_ERR_ARGUMENT;
  const auto reduce = [&](float* dst, const float* first, const float* second, uint32_t sources) {
    const void* const list[] = {first, second};
    return floe_local_reduce(dst, list, sources, 4, FLOE_FLOAT32, FLOE_SUM);
  };
  expect_refused(bad, floe_local_reduce(&data, nullptr, 2, 4, FLOE_FLOAT32, FLOE_SUM), "sources is NULL");
  expect_refused(bad, reduce(&data[0], &data[4], &data[8], 0), "source_count is 0");
  expect_refused(bad, reduce(&data[0], &data[4], nullptr, 2), "sources[1] is NULL");
  expect_refused(bad, reduce(nullptr, &data[4], &data[8], 2), "dst is NULL");
  expect_refused(bad, reduce(&data[1], &data[4], &data[8], 2), "dst and sources[0] overlap");
  expect_refused(bad, reduce(&data[5], &data[0], &data[8], 2), "dst and sources[1] overlap");
  EXPECT_FLOE_OK(reduce(&data[4], &data[4], &data[8], 2));
  EXPECT_FLOE_OK(reduce(&data[0], &data[4], &data[4], 2));
}

TEST(Arguments, NullHandles) {
  refuse([](Rank& r, float* data) {
    const auto bad = FLOE_ERR_ARGUMENT;
    floe_context_t* context = nullptr;
    floe_comm_t* comm = nullptr;
    floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
    EXPECT_EQ(bad, floe_context_create(nullptr, nullptr));
    EXPECT_EQ(bad, floe_context_destroy(nullptr));
    EXPECT_EQ(bad, floe_comm_create(nullptr, nullptr, nullptr, &comm));
    EXPECT_EQ(bad, floe_comm_create(r.context, nullptr, nullptr, &comm));
    EXPECT_EQ(bad, floe_comm_create_from_env(nullptr, nullptr, &comm));
    EXPECT_EQ(bad, floe_comm_destroy(nullptr));
    EXPECT_EQ(bad, floe_comm_abort(nullptr));
    EXPECT_EQ(bad, floe_comm_info(nullptr, nullptr));
    EXPECT_EQ(bad, floe_comm_info(r.comm, nullptr));
    EXPECT_EQ(bad, floe_comm_set_timeout(nullptr, 1));
    EXPECT_EQ(bad, floe_comm_set_timeout(r.comm, 0));
    EXPECT_EQ(bad, floe_all_reduce(nullptr, FLOE_IN_PLACE, data, 1, FLOE_FLOAT32, FLOE_SUM, nullptr));
    EXPECT_EQ(bad, floe_barrier(nullptr, nullptr));
    EXPECT_EQ(bad, floe_test(nullptr));
    EXPECT_EQ(bad, floe_wait(nullptr, 0));
    EXPECT_EQ(bad, floe_request_info(nullptr, &info));
    EXPECT_EQ(bad, floe_request_on_complete(nullptr, nullptr, nullptr));
    EXPECT_EQ(FLOE_OK, floe_request_free(nullptr));
    EXPECT_EQ(bad, floe_local_reduce(nullptr, nullptr, 1, 1, FLOE_FLOAT32, FLOE_SUM));
    EXPECT_EQ(nullptr, context);
    EXPECT_EQ(nullptr, comm);
  });
}

TEST(Arguments, StructsOfAnotherSize) {
  refuse([](Rank& r, float*) {
    floe_comm_info_t info = FLOE_COMM_INFO_INIT;
    info.struct_size = 0;
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_comm_info(r.comm, &info));
    // A client of a later header, with fields that this library does not know: they stay as they are.
    struct {
      floe_comm_info_t known = FLOE_COMM_INFO_INIT;
      uint64_t later = 1234;
    } longer;
    longer.known.struct_size = sizeof(longer);
    ASSERT_FLOE_OK(floe_comm_info(r.comm, &longer.known));
    EXPECT_EQ(r.rank, longer.known.rank);
    EXPECT_EQ(r.size, longer.known.size);
    EXPECT_EQ(1234u, longer.later);
    floe_context_config_t config = FLOE_CONTEXT_CONFIG_INIT;
    config.struct_size = 1;
    floe_context_t* context = nullptr;
    EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_context_create(&config, &context));
  });
}

TEST(Arguments, RequestInfoOfOneThatIsNotComplete) {
  run_ranks(2, [](Rank& r) {
    float data = 0;
    Request request;
    if (r.rank == 0) {
      ASSERT_FLOE_OK(floe_recv(r.comm, &data, 1, FLOE_FLOAT32, 1, 0, request.out()));
      floe_request_info_t info = FLOE_REQUEST_INFO_INIT;
      EXPECT_EQ(FLOE_ERR_ARGUMENT, floe_request_info(request.get(), &info));
    }
    ASSERT_FLOE_OK(floe_barrier(r.comm, nullptr));
    if (r.rank == 1) {
      ASSERT_FLOE_OK(floe_send(r.comm, &data, 1, FLOE_FLOAT32, 0, 0, nullptr));
    }
    if (r.rank == 0) {
      EXPECT_FLOE_OK(request.wait());
    }
  });
}

TEST(Errors, EveryStatusHasAName) {
  for (int status = FLOE_OK; status <= FLOE_ERR_INTERNAL; ++status)
    EXPECT_STRNE("unknown status", floe_status_string(static_cast<floe_status_t>(status))) << status;
  EXPECT_STREQ("FLOE_ERR_PEER", floe_status_string(FLOE_ERR_PEER));
  EXPECT_STREQ("unknown status", floe_status_string(static_cast<floe_status_t>(1000)));
  EXPECT_STREQ("unknown status", floe_status_string(static_cast<floe_status_t>(-1)));
  EXPECT_NE(nullptr, floe_last_error());
}

}  // namespace
}  // namespace floe::test
