/* Adds one number per rank on all ranks, and shows how a wrong call is refused. Start it once per rank,
 * through torchrun, mpirun or srun:
 *
 *   torchrun --no-python --nproc_per_node 2 build/examples/c/all_reduce
 */
#include <floe/floe.h>
#include <stdio.h>

static floe_status_t add_up(floe_comm_t *comm) {
  floe_comm_info_t info = FLOE_COMM_INFO_INIT;
  floe_status_t status = floe_comm_info(comm, &info);
  int32_t sum = (int32_t)info.rank + 1;
  if (status != FLOE_OK) return status;

  /* Nothing has been sent: the communicator stays usable. */
  status = floe_all_reduce(comm, FLOE_IN_PLACE, &sum, 1, FLOE_INT32, FLOE_AVG, NULL);
  printf("rank %u of %u: refused with %s: %s\n", info.rank, info.size, floe_status_string(status),
         floe_last_error());

  status = floe_all_reduce(comm, FLOE_IN_PLACE, &sum, 1, FLOE_INT32, FLOE_SUM, NULL);
  if (status == FLOE_OK)
    printf("rank %u of %u: 1 + ... + %u = %d\n", info.rank, info.size, info.size, (int)sum);
  return status;
}

int main(void) {
  floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  floe_context_t *context = NULL;
  floe_comm_t *comm = NULL;
  floe_status_t status = floe_context_create(NULL, &context);
  config.timeout_ms = 10000; /* of the creation and of each operation */
  if (status == FLOE_OK) status = floe_comm_create_from_env(context, &config, &comm);
  if (status == FLOE_OK) status = add_up(comm);
  if (status != FLOE_OK) fprintf(stderr, "%s: %s\n", floe_status_string(status), floe_last_error());

  if (comm) floe_comm_destroy(comm);
  if (context) floe_context_destroy(context);
  return status != FLOE_OK;
}
