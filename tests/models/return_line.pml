/* ReturnLine (src/shm/return_line.h): slots in rotation, one chunk of look-ahead.
 *
 * Shown: the owner of a block reads what every rank put for that chunk; each rank reads back that chunk's
 * result; no slot is written while somebody may still read it; nobody waits for ever while all live, and
 * with -DDEATH every rank ends although one dies anywhere.
 *
 * -DBUG_ONE_SLOT, -DBUG_PUT_EARLY, -DBUG_LOOK_AHEAD must each be found. */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef CHUNKS
#define CHUNKS 5
#endif
#ifdef BUG_ONE_SLOT
#define SLOTS 1
#else
#define SLOTS 2
#endif
#ifdef BUG_LOOK_AHEAD
#define LOOK_AHEAD 2
#else
#define LOOK_AHEAD 1
#endif
#define INPUT(chunk) (2 * (chunk) + 1)
#define RESULT(chunk) (2 * (chunk) + 2)

typedef Rank {
  byte slot[6]; /* [chunk % SLOTS][owner]: 0, INPUT or RESULT of a chunk */
  byte put;     /* chunks below are in the slots */
  byte done;    /* chunks below are reduced and returned */
  bool dead;
  bool failed
}
Rank ranks[RANKS];
byte deaths;
#define AT(chunk, owner) (((chunk) % SLOTS) * RANKS + (owner))

#ifdef DEATH
#define MAY_DIE if :: deaths < 1 -> deaths++; ranks[self].dead = true; goto end :: true fi
#else
#define MAY_DIE skip
#endif

/* Whether all peers' flags have passed `chunk`, or one never will. */
#define ALL_PASSED(flag, chunk) \
  d_step { \
    passed = true; gone = false; peer = 0; \
    do \
    :: peer < RANKS && peer != self -> \
      gone = gone || ((ranks[peer].dead || ranks[peer].failed) && ranks[peer].flag <= chunk); \
      passed = passed && ranks[peer].flag > chunk; \
      peer++ \
    :: peer == self -> peer++ \
    :: else -> break \
    od \
  }

proctype rank(byte self) {
  byte next_put, reduced, got, peer;
  bool passed, gone;
  do
  :: got == CHUNKS -> break
  :: next_put < CHUNKS && next_put <= got + LOOK_AHEAD ->
    MAY_DIE;
#ifdef BUG_PUT_EARLY
    ranks[self].put = next_put + 1;
#endif
    peer = 0;
    do
    :: peer < RANKS && peer != self -> ranks[self].slot[AT(next_put, peer)] = INPUT(next_put); peer++
    :: peer == self -> peer++
    :: else -> break
    od;
    MAY_DIE;
    next_put++;
    ranks[self].put = next_put
  :: reduced < next_put ->
    ALL_PASSED(put, reduced);
    if
    :: gone -> ranks[self].failed = true; goto end
    :: passed ->
      peer = 0;
      do
      :: peer < RANKS && peer != self ->
        assert(ranks[peer].slot[AT(reduced, self)] == INPUT(reduced));
        ranks[peer].slot[AT(reduced, self)] = RESULT(reduced);
        peer++
      :: peer == self -> peer++
      :: else -> break
      od;
      MAY_DIE;
      reduced++;
      ranks[self].done = reduced
    :: else
    fi
  :: got < reduced ->
    ALL_PASSED(done, got);
    if
    :: gone -> ranks[self].failed = true; goto end
    :: passed ->
      peer = 0;
      do
      :: peer < RANKS && peer != self ->
        assert(ranks[self].slot[AT(got, peer)] == RESULT(got));
        peer++
      :: peer == self -> peer++
      :: else -> break
      od;
      got++
    :: else
    fi
  od;
end: skip
}

init {
  byte i = 0;
  atomic { do :: i < RANKS -> run rank(i); i++ :: else -> break od }
}
