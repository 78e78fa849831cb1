/* A program that links nothing of floe: every exported function resolves, a collective
 * runs, and a wrong one is refused in words.
 * usage: abi_dlopen libfloe.so exported.txt */
#include <dlfcn.h>
#include <floe/floe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *load(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return symbol;
}

/* ISO C has no cast between void* and function pointers; POSIX promises that the bytes are the same. */
#define LOAD(function, library, name)               \
  do {                                              \
    void *const symbol = load(library, name);       \
    memcpy(&(function), &symbol, sizeof(function)); \
  } while (0)

static void resolve_all(void *library, const char *list) {
  char line[256];
  int found = 0;
  FILE *file = fopen(list, "r");
  if (file == NULL) {
    perror(list);
    exit(1);
  }
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "@\n")] = '\0';
    load(library, line);
    ++found;
  }
  fclose(file);
  if (found == 0) {
    fprintf(stderr, "%s names no function\n", list);
    exit(1);
  }
}

static void expect_ok(void *library, floe_status_t status, const char *what) {
  const char *(*last_error)(void);
  if (status == FLOE_OK) {
    return;
  }
  LOAD(last_error, library, "floe_last_error");
  fprintf(stderr, "%s: status %d: %s\n", what, (int)status, last_error());
  exit(1);
}

static void run_collective(void *library) {
  floe_status_t (*context_create)(const floe_context_config_t *, floe_context_t **);
  floe_status_t (*context_destroy)(floe_context_t *);
  floe_status_t (*comm_create)(floe_context_t *, const floe_comm_config_t *, const floe_store_t *,
                               floe_comm_t **);
  floe_status_t (*comm_destroy)(floe_comm_t *);
  floe_status_t (*all_reduce)(floe_comm_t *, const void *, void *, uint64_t, floe_type_t, floe_op_t,
                              floe_request_t **);
  const char *(*last_error)(void);
  const floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  const float input[3] = {1.0f, 2.0f, 3.0f};
  float output[3] = {0.0f, 0.0f, 0.0f};
  floe_context_t *context = NULL;
  floe_comm_t *comm = NULL;

  LOAD(context_create, library, "floe_context_create");
  LOAD(context_destroy, library, "floe_context_destroy");
  LOAD(comm_create, library, "floe_comm_create");
  LOAD(comm_destroy, library, "floe_comm_destroy");
  LOAD(all_reduce, library, "floe_all_reduce");
  LOAD(last_error, library, "floe_last_error");
  expect_ok(library, context_create(NULL, &context), "floe_context_create");
  expect_ok(library, comm_create(context, &config, NULL, &comm), "floe_comm_create");
  expect_ok(library, all_reduce(comm, input, output, 3, FLOE_FLOAT32, FLOE_SUM, NULL), "floe_all_reduce");
  if (all_reduce(comm, input, output, 3, FLOE_INT32, FLOE_AVG, NULL) != FLOE_ERR_UNSUPPORTED ||
      strstr(last_error(), "avg of int32") == NULL) {
    fprintf(stderr, "an average of integers is not refused with words, but: %s\n", last_error());
    exit(1);
  }
  expect_ok(library, comm_destroy(comm), "floe_comm_destroy");
  expect_ok(library, context_destroy(context), "floe_context_destroy");
  if (memcmp(input, output, sizeof input) != 0) {
    fprintf(stderr, "one rank's all_reduce is not its input\n");
    exit(1);
  }
}

int main(int argc, char **argv) {
  void *library;
  uint32_t (*version)(void);
  if (argc != 3) {
    fprintf(stderr, "usage: %s libfloe.so exported.txt\n", argv[0]);
    return 2;
  }
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  resolve_all(library, argv[2]);
  LOAD(version, library, "floe_version");
  if (version() != FLOE_VERSION_MAJOR * 10000 + FLOE_VERSION_MINOR * 100 + FLOE_VERSION_PATCH) {
    fprintf(stderr, "floe_version() is %u, the header's is another\n", (unsigned)version());
    return 1;
  }
  run_collective(library);
  dlclose(library);
  return 0;
}
