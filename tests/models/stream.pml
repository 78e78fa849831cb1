/* Stream (src/shm/stream.h): chunks put into an outbox that is used round and round, without acknowledgements.
 * An operation has two chunks. In every other one all ranks publish and all read; in the others only the last rank
 * publishes, and only its peers read.
 *
 * Shown: who reads a chunk finds that chunk, also while it is still reading; a flag is read before a later chunk takes
 * its place; nobody waits for ever while all live, and with -DDEATH every rank ends although one dies anywhere.
 *
 * -DBUG_FLAG_FIRST, -DBUG_NO_ROOM, -DBUG_ONE_SHORT, -DBUG_FEW_FLAGS must each be found. */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef CHUNKS
#define CHUNKS 8
#endif
#define AHEAD 2
#define PLACES 3
#ifdef BUG_FEW_FLAGS
#define FLAGS 2
#else
#define FLAGS 4
#endif
#define OPERATION(chunk) ((chunk) / 2)
#define PUBLISHES(rank, chunk) (OPERATION(chunk) % 2 == 0 || (rank) == RANKS - 1)
#define READS(rank, chunk) (OPERATION(chunk) % 2 == 0 || (rank) != RANKS - 1)
#define AWAITS(rank, of, chunk) ((rank) != (of) && READS(rank, chunk) && PUBLISHES(of, chunk))

typedef Rank {
  byte place[PLACES]; /* the chunk there, plus 1 */
  byte flag[FLAGS];   /* of chunk c at c % FLAGS: c + 1 */
  bool dead;
  bool failed
}
Rank ranks[RANKS];
byte deaths;

#ifdef DEATH
#define MAY_DIE if :: deaths < 1 -> deaths++; ranks[self].dead = true; goto end :: true fi
#else
#define MAY_DIE skip
#endif

/* How many chunks everybody must have read before this one is put: Stream::make_room(). */
#ifdef BUG_ONE_SHORT
#define READ_BEFORE(chunk) ((chunk) - PLACES)
#else
#define READ_BEFORE(chunk) ((chunk) - PLACES + 1)
#endif

/* Whether all peers have published chunk READ_BEFORE - 1 + AHEAD, or one never will. */
#define ROOM(chunk) \
  d_step { \
    room = true; gone = false; peer = 0; \
    do \
    :: peer < RANKS && peer != self && chunk >= PLACES -> \
      wanted = READ_BEFORE(chunk) + AHEAD; \
      gone = gone || ((ranks[peer].dead || ranks[peer].failed) && ranks[peer].flag[(wanted - 1) % FLAGS] < wanted); \
      room = room && ranks[peer].flag[(wanted - 1) % FLAGS] >= wanted; \
      peer++ \
    :: peer < RANKS && (peer == self || chunk < PLACES) -> peer++ \
    :: else -> break \
    od; \
    wanted = 0 \
  }

proctype rank(byte self) {
  byte put, taken, source, peer, wanted;
  bool room, gone;
  do
  :: taken == CHUNKS -> break
  :: put < CHUNKS && put < taken + AHEAD && OPERATION(put) == OPERATION(taken) ->
    ROOM(put);
#ifdef BUG_NO_ROOM
    room = true;
#endif
    if
    :: gone && !room -> ranks[self].failed = true; goto end
    :: room ->
      MAY_DIE;
#ifdef BUG_FLAG_FIRST
      ranks[self].flag[put % FLAGS] = put + 1;
#endif
      if
      :: PUBLISHES(self, put) -> ranks[self].place[put % PLACES] = put + 1
      :: else
      fi;
      MAY_DIE;
      ranks[self].flag[put % FLAGS] = put + 1;
      put++
    :: else
    fi
  :: taken < put ->
    if
    :: source == RANKS -> source = 0; taken++
    :: source < RANKS && !AWAITS(self, source, taken) -> source++
    :: source < RANKS && AWAITS(self, source, taken) ->
      if
      :: ranks[source].flag[taken % FLAGS] == taken + 1 ->
        assert(ranks[source].place[taken % PLACES] == taken + 1);
        assert(ranks[source].place[taken % PLACES] == taken + 1); /* still, at the end of the copy */
        source++
      :: ranks[source].flag[taken % FLAGS] > taken + 1 -> assert(false) /* it would never be seen */
      :: ranks[source].flag[taken % FLAGS] < taken + 1 && (ranks[source].dead || ranks[source].failed) ->
        if
        :: ranks[source].flag[taken % FLAGS] == taken + 1 /* published before it went */
        :: else -> ranks[self].failed = true; goto end
        fi
      :: else
      fi
    fi
  od;
end: skip
}

init {
  byte i = 0;
  atomic { do :: i < RANKS -> run rank(i); i++ :: else -> break od }
}
