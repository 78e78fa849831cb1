/* Two ranks whose blocks lie in their outboxes (DirectPath::make_large(), src/shm/direct.cpp): operations that
 * exchange, or return lines, in the blocks (pair_exchange.pml), and streams (stream.pml), of one chunk each.
 *
 * Shown: whatever follows what, each finds what the other one put, whole, also while it is still reading; and nobody
 * waits for ever.
 *
 * -DBUG_NO_WAIT, -DBUG_RETURNED_ONCE, -DBUG_OWN_SIDE, -DBUG_NO_ROOM must each be found. */
#define STEPS 5
#define PLACES 3 /* of chunks in an outbox; blocks are the first of them */
#define AHEAD 1 /* who has published a chunk has read the one before: each is an operation */
#define DATA(rank, step) (4 * (step) + (rank) + 1)
#define RESULT(rank, step) (4 * (step) + (rank) + 3)

mtype = { exchange, line, give0, give1, both };
mtype operations[STEPS]; /* the same on both ranks */
byte place[6];           /* [segment][place] */
byte exchanged[2];       /* by rank, and the next ones: flags, or how often they were published */
byte put[2], done[2];
byte returned[2];
byte streamed[2];

#define PLACE(segment, number) place[PLACES * (segment) + (number)]
#define MINE ((self + side) % 2)
#define GIVES(rank, what) ((what) == both || (what) == ((rank) == 0 -> give0 : give1))

proctype rank(byte self) {
  byte step, exchanges, lines, returns, chunk, side;
  bool blocks_last;
  mtype what;
  do
  :: step == STEPS -> break
  :: step < STEPS ->
    what = operations[step];
    if
    :: (what == exchange || what == line) && !blocks_last ->
      blocks_last = true;
#ifndef BUG_OWN_SIDE
      side = 1
#else
      side = 0
#endif
    :: what != exchange && what != line && blocks_last ->
      blocks_last = false;
      returns++;
      returned[self] = returns; /* release */
#ifdef BUG_RETURNED_ONCE
      !GIVES(self, what) || returned[1 - self] > 0
#elif !defined(BUG_NO_WAIT)
      !GIVES(self, what) || returned[1 - self] >= returns /* acquire */
#endif
    :: else
    fi;
    if
    :: what == exchange ->
      PLACE(MINE, 0) = DATA(self, step);
      exchanges++;
      exchanged[self] = exchanges;
      exchanged[1 - self] >= exchanges;
      assert(PLACE(1 - MINE, 0) == DATA(1 - self, step));
      assert(PLACE(1 - MINE, 0) == DATA(1 - self, step));
      side = 1 - side
    :: what == line ->
      PLACE(MINE, 0) = DATA(self, step);
      lines++;
      put[self] = lines;
      put[1 - self] >= lines;
      assert(PLACE(1 - MINE, 0) == DATA(1 - self, step));
      PLACE(1 - MINE, 0) = RESULT(1 - self, step);
      done[self] = lines;
      done[1 - self] >= lines;
      assert(PLACE(MINE, 0) == RESULT(self, step));
      assert(PLACE(MINE, 0) == RESULT(self, step))
    :: else ->
#ifndef BUG_NO_ROOM
      chunk < PLACES || streamed[1 - self] >= chunk - PLACES + 1 + AHEAD;
#endif
      if
      :: GIVES(self, what) -> PLACE(self, chunk % PLACES) = DATA(self, step)
      :: else
      fi;
      chunk++;
      streamed[self] = chunk;
      if
      :: GIVES(1 - self, what) ->
        streamed[1 - self] >= chunk;
        assert(PLACE(1 - self, (chunk - 1) % PLACES) == DATA(1 - self, step));
        assert(PLACE(1 - self, (chunk - 1) % PLACES) == DATA(1 - self, step))
      :: else
      fi
    fi;
    step++
  od
}

init {
  byte i;
  do
  :: i < STEPS ->
    if
    :: operations[i] = exchange
    :: operations[i] = line
    :: operations[i] = give0
    :: operations[i] = give1
    :: operations[i] = both
    fi;
    i++
  :: else -> break
  od;
  atomic { run rank(0); run rank(1) }
}
