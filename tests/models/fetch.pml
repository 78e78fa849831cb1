/* A message that its receiver copies from the sender's memory (src/shm/peer_memory.h, src/engine/long_messages.cpp),
 * in two slices. The sender's caller has its memory back, and overwrites it, once the message has been fetched or the
 * sender's part has ended early.
 *
 * Shown: what the receiver takes for the message is the message; it may refuse one, but only of a sender that has
 * ended; and a sender that does not end is told.
 *
 * -DBUG_LATE_STATE, -DBUG_EARLY_LOOK, -DBUG_ONE_LOOK and -DBUG_EARLY_END must each be found. */
#define MESSAGE 1
#define RUBBISH 2
#define SLICES 2

byte memory[SLICES]; /* the sender's */
bool announced, ended, fetched, refused;

active proctype sender() {
  byte i;
  memory[0] = MESSAGE;
  memory[1] = MESSAGE;
  announced = true; /* release */
  if
  :: (fetched) /* acquire */
  :: true ->
#ifndef BUG_LATE_STATE
    ended = true; /* before the fence */
#endif
  fi;
  for (i : 0 .. SLICES - 1) { memory[i] = RUBBISH }
#ifdef BUG_LATE_STATE
  ended = true
#endif
}

active proctype receiver() {
  byte i, taken[SLICES];
  bool alive;
  (announced); /* acquire */
  for (i : 0 .. SLICES - 1) {
#ifdef BUG_EARLY_LOOK
    alive = !ended;
#endif
#ifdef BUG_EARLY_END
    fetched = fetched || i == SLICES - 1;
#endif
    taken[i] = memory[i];
#ifndef BUG_EARLY_LOOK
#ifdef BUG_ONE_LOOK
    if
    :: i == 0 -> alive = !ended
    :: else
    fi;
#else
    alive = !ended; /* behind the fence */
#endif
#endif
    if
    :: alive
    :: else -> assert(ended); refused = true; goto done
    fi
  }
  assert(taken[0] == MESSAGE && taken[1] == MESSAGE);
  fetched = true; /* release */
done:
  assert(fetched || refused)
}
