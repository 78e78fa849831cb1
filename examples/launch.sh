#!/bin/bash
# launch.sh N PROGRAM [ARGUMENT...]: runs PROGRAM as N ranks on this host, in torchrun's environment.
# Fails if a rank fails.
set -euo pipefail

ranks=$1
shift
export WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1
# A port that nobody listens on, below the kernel's ephemeral ones so that no connection takes it.
until
  MASTER_PORT=$((RANDOM % 12000 + 20000))
  ! (: <"/dev/tcp/127.0.0.1/$MASTER_PORT") 2>/dev/null
do :; done
export MASTER_PORT

pids=()
for ((rank = 0; rank < ranks; rank++)); do
  RANK=$rank LOCAL_RANK=$rank "$@" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do
  wait "$pid" || failed=1
done
exit "$failed"
