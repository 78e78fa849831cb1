/* Two ranks that exchange the data of small collectives (SmallExchange::Way::kExchanged, src/shm/small_exchange.h) in
 * two buffers, between others in which rank 0 only gives and does not wait. Flags are counters here (small.pml).
 *
 * Shown: each reads what the other published in that turn, whole; nobody writes to a buffer that the other one still
 * reads; nobody waits for ever.
 *
 * -DBUG_FLAG_FIRST, -DBUG_OWN_BUFFER, -DBUG_NO_WAIT must each be found. */
#define TURNS 5
#define DATA(rank, turn) (2 * (turn) + (rank))

bool exchanged[TURNS + 1]; /* the same calls on both ranks */
byte half[4];              /* of the two buffers */
byte flag[2];              /* turns published */

#ifdef BUG_OWN_BUFFER
#define BUFFER(rank) (rank)
#else
#define BUFFER(rank) ((rank + exchanges) % 2)
#endif

proctype rank(byte self) {
  byte turn = 1, exchanges, place;
  do
  :: turn > TURNS -> break
  :: turn <= TURNS && exchanged[turn] ->
    exchanges++;
    place = 2 * BUFFER(self);
#ifdef BUG_FLAG_FIRST
    flag[self] = turn;
#endif
    half[place] = DATA(self, turn);
    half[place + 1] = DATA(self, turn);
    flag[self] = turn; /* release */
#ifndef BUG_NO_WAIT
    flag[1 - self] >= turn; /* acquire */
#endif
    place = 2 * BUFFER((1 - self));
    assert(half[place] == DATA((1 - self), turn));
    assert(half[place + 1] == DATA((1 - self), turn));
    turn++
  :: turn <= TURNS && !exchanged[turn] ->
    flag[self] = turn;
    if
    :: self == 1 -> flag[0] >= turn
    :: else
    fi;
    turn++
  od
}

init {
  byte i = 1;
  do
  :: i <= TURNS ->
    if
    :: exchanged[i] = true
    :: exchanged[i] = false
    fi;
    i++
  :: else -> break
  od;
  atomic { run rank(0); run rank(1) }
}
