/* Sums over a communicator of this process alone. */
#include <floe/floe.h>
#include <stdio.h>

int main(void) {
  const floe_comm_config_t config = FLOE_COMM_CONFIG_INIT;
  const double mine = 42.0;
  double sum = 0.0;
  floe_context_t *context = NULL;
  floe_comm_t *comm = NULL;
  if (floe_context_create(NULL, &context) != FLOE_OK ||
      floe_comm_create(context, &config, NULL, &comm) != FLOE_OK ||
      floe_all_reduce(comm, &mine, &sum, 1, FLOE_FLOAT64, FLOE_SUM, NULL) != FLOE_OK ||
      floe_comm_destroy(comm) != FLOE_OK || floe_context_destroy(context) != FLOE_OK) {
    fprintf(stderr, "%s\n", floe_last_error());
    return 1;
  }
  return sum == mine ? 0 : 1;
}
