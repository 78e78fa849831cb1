/* SmallExchange (src/shm/small_exchange.h): slots in turn without acknowledgements, and ranks that die anywhere. In
 * every other turn all ranks have data for all; in the others only the last rank has, and only its peers read. Every
 * fourth turn has slots of another kind.
 *
 * Shown: a rank that reads finds what was published for that turn, also while it is still reading; every rank ends, by
 * finishing or with an error, whoever dies; a rank fails only if some rank died that it still needed.
 *
 * -DBUG_NO_ROOM, -DBUG_ONE_SHORT, -DBUG_OTHER_KIND, -DBUG_FLAG_FIRST, -DBUG_NO_SECOND_LOOK must each be found. */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef TURNS
#define TURNS 5
#endif
#define SLOTS 2
#define KIND(turn) ((turn) % 4 == 0)
#define SLOT(turn) (KIND(turn) * SLOTS + (turn) % SLOTS)
#define PUBLISHES(rank, turn) ((turn) % 2 == 1 || (rank) == RANKS - 1)
#define READS(rank, turn) ((turn) % 2 == 1 || (rank) != RANKS - 1)
#define READS_FROM(rank, of, turn) ((rank) != (of) && READS(rank, turn) && PUBLISHES(of, turn))
/* The turn that all must have published before the slot of `turn` may be taken. */
#ifdef BUG_ONE_SHORT
#define NEEDED(turn) ((turn) - SLOTS)
#else
#define NEEDED(turn) ((turn) + 1 - SLOTS)
#endif
/* Where that is found. */
#ifdef BUG_OTHER_KIND
#define NEEDED_SLOT(turn) (KIND(turn) * SLOTS + NEEDED(turn) % SLOTS)
#else
#define NEEDED_SLOT(turn) SLOT(NEEDED(turn))
#endif

typedef Rank {
  byte data[2 * SLOTS];
  byte flag[2 * SLOTS];
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
    peer = 0;
#ifndef BUG_NO_ROOM
    do
    :: peer == RANKS -> break
    :: peer < RANKS && (peer == self || turn < SLOTS) -> peer++
    :: peer < RANKS && peer != self && turn >= SLOTS ->
      if
      :: ranks[peer].flag[NEEDED_SLOT(turn)] >= NEEDED(turn) -> peer++
      :: ranks[peer].flag[NEEDED_SLOT(turn)] < NEEDED(turn) && (ranks[peer].dead || ranks[peer].failed) ->
        if
        :: ranks[peer].flag[NEEDED_SLOT(turn)] >= NEEDED(turn) -> peer++
        :: else ->
          assert(ranks[peer].published < NEEDED(turn));
          ranks[self].failed = true;
          goto end
        fi
      fi
    od;
#endif
#ifdef BUG_FLAG_FIRST
    ranks[self].flag[SLOT(turn)] = turn;
#endif
    if
    :: PUBLISHES(self, turn) -> ranks[self].data[SLOT(turn)] = turn
    :: else
    fi;
    MAY_DIE;
    d_step { ranks[self].flag[SLOT(turn)] = turn; ranks[self].published = turn }
    peer = 0;
    do
    :: peer == RANKS -> break
    :: peer < RANKS && !READS_FROM(self, peer, turn) -> peer++
    :: peer < RANKS && READS_FROM(self, peer, turn) && ranks[peer].flag[SLOT(turn)] >= turn ->
      /* The slot must hold this turn's data until it has been read. */
      assert(ranks[peer].flag[SLOT(turn)] == turn && ranks[peer].data[SLOT(turn)] == turn);
      assert(ranks[peer].data[SLOT(turn)] == turn);
      peer++
    :: peer < RANKS && READS_FROM(self, peer, turn) && ranks[peer].flag[SLOT(turn)] < turn ->
      (ranks[peer].flag[SLOT(turn)] >= turn || ranks[peer].dead || ranks[peer].failed);
      was_gone = ranks[peer].dead || ranks[peer].failed;
      /* Group::check(): a peer that is gone, or has failed; then what it published before still counts. */
      if
      :: was_gone ->
#ifndef BUG_NO_SECOND_LOOK
        if
        :: ranks[peer].flag[SLOT(turn)] >= turn -> goto next
        :: else
        fi;
#endif
        assert(ranks[peer].published < turn);
        ranks[self].failed = true;
        goto end
      :: else
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
