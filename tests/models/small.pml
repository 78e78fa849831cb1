/* SmallExchange (src/shm/small_exchange.h): two slots in turn, no trailing barrier, and ranks that die anywhere.
 *
 * Shown: a rank that finishes a turn has added what every rank published for that turn, whatever the others
 * do meanwhile; every rank ends, by finishing or with an error, whoever dies; a rank fails only if some rank
 * died before it had published that turn.
 *
 * -DBUG_ONE_SLOT, -DBUG_FLAG_FIRST, -DBUG_NO_SECOND_LOOK must each be found. */
#define RANKS 3
#define TURNS 4
#ifdef BUG_ONE_SLOT
#define SLOT(turn) 0
#else
#define SLOT(turn) ((turn) % 2)
#endif

typedef Rank {
  byte data[2];
  byte flag[2];
  byte published;  /* ghost: the last turn published */
  bool dead;       /* what its pidfd says */
  bool failed      /* SegmentHeader::state */
}
Rank ranks[RANKS];
byte deaths;

/* A process may be killed before any of its steps, but not all of them: the last one has nobody to talk to. */
#define MAY_DIE if :: deaths < RANKS - 1 -> deaths++; ranks[self].dead = true; goto end :: true fi

proctype rank(byte self) {
  byte turn = 1, peer;
  bool was_gone;
  do
  :: turn > TURNS -> break
  :: else ->
    MAY_DIE;
#ifdef BUG_FLAG_FIRST
    ranks[self].flag[SLOT(turn)] = turn;
    ranks[self].data[SLOT(turn)] = turn;
#else
    ranks[self].data[SLOT(turn)] = turn;
    MAY_DIE;
    d_step { ranks[self].flag[SLOT(turn)] = turn; ranks[self].published = turn }
#endif
    peer = 0;
    do
    :: peer == RANKS -> break
    :: peer == self -> peer++
    :: peer != self && peer < RANKS && ranks[peer].flag[SLOT(turn)] == turn ->
      /* combine(): the slot must still hold this turn's data when it is read. */
      assert(ranks[peer].data[SLOT(turn)] == turn);
      peer++
    :: peer != self && peer < RANKS && ranks[peer].flag[SLOT(turn)] != turn ->
      /* Group::check(): a peer that is gone, or has failed; then what it published before still counts. */
      was_gone = ranks[peer].dead || ranks[peer].failed;
      if
      :: was_gone ->
#ifndef BUG_NO_SECOND_LOOK
        if
        :: ranks[peer].flag[SLOT(turn)] == turn -> goto next
        :: else
        fi;
#endif
        assert(ranks[peer].published < turn);
        ranks[self].failed = true;
        goto end
      :: else -> (ranks[peer].flag[SLOT(turn)] == turn || ranks[peer].dead || ranks[peer].failed)
      fi;
next: skip
    od;
    turn++
  od;
end: skip
}

init {
  byte i = 0;
  atomic { do :: i < RANKS -> run rank(i); i++ :: else -> break od }
}
