/* A rank of test_many_ranks.py: connects, runs every collective with ranks of all hosts, and leaves. Says on
 * rank 0 how long each part took. */
#define _POSIX_C_SOURCE 200809L
#include <floe/floe.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kCount = 1000, kLarge = 100000 };

static uint32_t rank, size;
static floe_comm_t* world;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void must(floe_status_t status, const char* what) {
  if (status == FLOE_OK) return;
  fprintf(stderr, "rank %u: %s: %s\n", rank, what, floe_last_error());
  exit(1);
}

static void expect(int64_t wanted, int64_t got, const char* what) {
  if (wanted == got) return;
  fprintf(stderr, "rank %u: %s: %lld instead of %lld\n", rank, what, (long long)got, (long long)wanted);
  exit(1);
}

static int64_t* room(uint64_t count) {
  int64_t* const data = malloc(count * sizeof *data);
  if (!data) exit(1);
  for (uint64_t i = 0; i < count; ++i) data[i] = -1;
  return data;
}

/* What rank `from` has for rank `to`. */
static int64_t value(uint32_t from, uint32_t to) { return 1000 * (int64_t)from + to; }

static void reductions(uint64_t count) {
  int64_t *const send = room(count * size), *const recv = room(count * size);
  const int64_t all = (int64_t)size * (size - 1) / 2;
  for (uint64_t i = 0; i < count * size; ++i) send[i] = rank;
  must(floe_all_reduce(world, send, recv, count, FLOE_INT64, FLOE_SUM, NULL), "all_reduce");
  expect(all, recv[count - 1], "all_reduce");
  must(floe_reduce(world, send, recv, count, FLOE_INT64, FLOE_MAX, size / 2, NULL), "reduce");
  if (rank == size / 2) expect(size - 1, recv[count - 1], "reduce");
  must(floe_reduce_scatter(world, send, recv, count, FLOE_INT64, FLOE_SUM, NULL), "reduce_scatter");
  expect(all, recv[count - 1], "reduce_scatter");
  free(send);
  free(recv);
}

static void blocks(uint64_t count) {
  int64_t *const send = room(count * size), *const recv = room(count * size);
  for (uint32_t to = 0; to < size; ++to)
    for (uint64_t i = 0; i < count; ++i) send[to * count + i] = value(rank, to);
  must(floe_all_to_all(world, send, recv, count, FLOE_INT64, NULL), "all_to_all");
  for (uint32_t from = 0; from < size; ++from) expect(value(from, rank), recv[from * count], "all_to_all");
  must(floe_all_gather(world, send, recv, count, FLOE_INT64, NULL), "all_gather");
  for (uint32_t from = 0; from < size; ++from) expect(value(from, 0), recv[from * count], "all_gather");
  must(floe_gather(world, send, recv, count, FLOE_INT64, size - 1, NULL), "gather");
  if (rank == size - 1) expect(value(size / 2, 0), recv[size / 2 * count], "gather");
  must(floe_scatter(world, send, recv, count, FLOE_INT64, size - 1, NULL), "scatter");
  expect(value(size - 1, rank), recv[count - 1], "scatter");
  must(floe_broadcast(world, recv, count, FLOE_INT64, 0, NULL), "broadcast");
  expect(value(size - 1, 0), recv[count - 1], "broadcast");
  free(send);
  free(recv);
}

/* Rank r's block has r elements, and one of them for each other rank. */
static void uneven_blocks(void) {
  uint64_t *const counts = malloc(size * sizeof *counts), all = 0;
  for (uint32_t r = 0; r < size; ++r) all += counts[r] = r;
  int64_t *const send = room(all + size), *const recv = room(all + size);
  for (uint64_t i = 0; i < all + size; ++i) send[i] = rank;
  must(floe_all_gather_v(world, send, recv, counts, NULL, FLOE_INT64, NULL), "all_gather_v");
  expect(size - 1, recv[all - 1], "all_gather_v");
  must(floe_gather_v(world, send, rank, recv, counts, NULL, FLOE_INT64, 0, NULL), "gather_v");
  must(floe_scatter_v(world, send, counts, NULL, recv, rank, FLOE_INT64, 1, NULL), "scatter_v");
  if (rank != 0) expect(1, recv[0], "scatter_v");
  must(floe_reduce_scatter_v(world, send, recv, counts, NULL, FLOE_INT64, FLOE_MIN, NULL),
       "reduce_scatter_v");
  if (rank != 0) expect(0, recv[0], "reduce_scatter_v");
  uint64_t *const to = malloc(size * sizeof *to), *const from = malloc(size * sizeof *from);
  uint64_t sum = 0;
  for (uint32_t r = 0; r < size; ++r) {
    to[r] = (rank + r) % 3;
    sum += from[r] = (rank + r) % 3;
  }
  must(floe_all_to_all_v(world, send, to, NULL, recv, from, NULL, FLOE_INT64, NULL), "all_to_all_v");
  if (from[size - 1] != 0) expect(size - 1, recv[sum - 1], "all_to_all_v");
  free(from);
  free(to);
  free(recv);
  free(send);
  free(counts);
}

static void messages(void) {
  floe_request_t* req = NULL;
  int64_t mine = rank, theirs = -1;
  must(floe_recv(world, &theirs, 1, FLOE_INT64, FLOE_ANY_SOURCE, 7, &req), "recv");
  must(floe_send(world, &mine, 1, FLOE_INT64, (rank + 1) % size, 7, NULL), "send");
  must(floe_wait(req, FLOE_NO_TIMEOUT), "wait");
  must(floe_request_free(req), "free");
  expect((rank + size - 1) % size, theirs, "send and recv");
}

/* Every other rank: on all hosts. */
static void part_of_them(void) {
  floe_comm_t* half = NULL;
  int64_t one = 1;
  must(floe_comm_split(world, (int32_t)(rank % 2), 0, &half), "split");
  must(floe_all_reduce(half, FLOE_IN_PLACE, &one, 1, FLOE_INT64, FLOE_SUM, NULL), "all_reduce of half");
  expect((size + 1 - rank % 2) / 2, one, "all_reduce of half");
  must(floe_comm_destroy(half), "destroy");
}

int main(void) {
  floe_context_t* context = NULL;
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  const double start = now();
  must(floe_context_create(NULL, &context), "context");
  must(floe_comm_create_from_env(context, NULL, &world), "create");
  must(floe_comm_info(world, &info), "info");
  rank = info.rank;
  size = info.size;
  const double created = now();
  must(floe_barrier(world, NULL), "barrier");
  reductions(1);
  reductions(kCount);
  reductions(kLarge / size);
  blocks(1);
  blocks(kCount);
  uneven_blocks();
  messages();
  const double collectives = now();
  part_of_them();
  const double split = now();
  must(floe_barrier(world, NULL), "barrier");
  must(floe_comm_destroy(world), "destroy");
  must(floe_context_destroy(context), "context");
  if (rank == 0)
    printf("%u ranks: created in %.2f s, collectives %.2f s, split %.2f s, destroyed in %.2f s\n", size,
           created - start, collectives - created, split - collectives, now() - split);
  return 0;
}
