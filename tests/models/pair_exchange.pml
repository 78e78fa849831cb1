/* Two ranks that exchange in their two buffers (PairExchange, src/shm/pair_exchange.h), between chunks of the return
 * line in the same buffers (ReturnLine; return_line.pml). Flags of exchanges alternate, and stay what they are.
 *
 * Shown: each reads what the other put in that chunk, whole, and finds in a flag no other chunk's; each has its result
 * back from the return line; nobody writes where the other one still reads; nobody waits for ever.
 *
 * -DBUG_FLAG_FIRST, -DBUG_OWN_BUFFER, -DBUG_NO_WAIT, -DBUG_ONE_FLAG, -DBUG_RETURN_AT_HOME must each be found. */
#define STEPS 5
#define DATA(rank, step) (4 * (step) + (rank) + 1)
#define RESULT(rank, step) (4 * (step) + (rank) + 3)

bool exchanges[STEPS]; /* or a chunk of the return line: the same on both ranks; those in a row are one operation */
byte place[4];         /* [buffer][half]: a chunk of the return line has one half, an exchange has both */
byte flag[4];          /* [rank][exchange % 2] */
byte put[2], done[2];  /* by rank: chunks of the return line below */

#define HALF(buffer, half) place[2 * (buffer) + (half)]
#ifdef BUG_OWN_BUFFER
#define MINE self
#else
#define MINE ((self + exchanged) % 2)
#endif
#ifdef BUG_RETURN_AT_HOME
#define LINE self
#else
#define LINE MINE
#endif
#ifdef BUG_ONE_FLAG
#define FLAG(rank) flag[2 * (rank)]
#else
#define FLAG(rank) flag[2 * (rank) + exchanged % 2]
#endif

proctype rank(byte self) {
  byte step, exchanged, chunks, first, next_put, answered, got, end;
  do
  :: step == STEPS -> break
  :: step < STEPS && exchanges[step] ->
#ifdef BUG_FLAG_FIRST
    FLAG(self) = exchanged + 1;
#endif
    HALF(MINE, 0) = DATA(self, step);
    HALF(MINE, 1) = DATA(self, step);
    FLAG(self) = exchanged + 1; /* release */
#ifndef BUG_NO_WAIT
    FLAG((1 - self)) > exchanged; /* acquire */
    assert(FLAG((1 - self)) == exchanged + 1);
#endif
    assert(HALF((1 - MINE), 0) == DATA((1 - self), step));
    assert(HALF((1 - MINE), 1) == DATA((1 - self), step));
    exchanged++;
    step++
  :: step < STEPS && !exchanges[step] ->
    /* Chunk c of the return line is step c - chunks + step of all. */
    end = step;
    do
    :: end < STEPS && !exchanges[end] -> end++
    :: else -> break
    od;
    end = chunks + end - step;
    first = chunks; next_put = chunks; answered = chunks; got = chunks;
    do
    :: got == end -> break
    :: next_put < end && next_put <= got + 1 ->
      HALF(LINE, next_put % 2) = DATA(self, next_put - first + step);
      next_put++;
      put[self] = next_put /* release */
    :: answered < next_put && put[1 - self] > answered ->
      assert(HALF((1 - LINE), answered % 2) == DATA((1 - self), answered - first + step));
      HALF((1 - LINE), answered % 2) = RESULT((1 - self), answered - first + step);
      answered++;
      done[self] = answered /* release */
    :: got < answered && done[1 - self] > got ->
      assert(HALF(LINE, got % 2) == RESULT(self, got - first + step));
      got++
    od;
    step = step + end - first;
    chunks = end
  od
}

init {
  byte i;
  do
  :: i < STEPS ->
    if
    :: exchanges[i] = true
    :: exchanges[i] = false
    fi;
    i++
  :: else -> break
  od;
  atomic { run rank(0); run rank(1) }
}
