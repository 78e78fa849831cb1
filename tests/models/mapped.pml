/* MappedReduce (src/shm/mapped_reduce.h) and how a group ends beside it (Group::end_peers_writes): each rank
 * has buffers that it can offer, or others, at every operation anew; a rank may abort while it waits anywhere.
 *
 * Shown: all ranks go the same way; who reads an offer finds this operation's buffers; every part of the result
 * is there when an operation ends well; nobody writes to a rank's buffers once its operation has ended, however
 * it did; nobody waits for ever, also with -DDEATH, where a rank dies anywhere, and with -DSTOP, where who waits
 * for a write to end may be out of patience at any time, and fences the writer off.
 *
 * -DBUG_ANY_ANSWER, -DBUG_OFFER_FIRST, -DBUG_DONE_EARLY, -DBUG_LOOK_FIRST, -DBUG_NO_WAIT, -DBUG_WAIT_FIRST,
 * -DBUG_NO_FENCE must each be found. */
#ifndef RANKS
#define RANKS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef SLICES
#define SLICES 2
#endif
#define MAPPED 1
#define USUAL 2

typedef Rank {
  byte offered; /* what the offer says of the buffers: here, whose operation's they are */
  byte offer;   /* flags: an operation's number */
  byte put;
  byte done;
  bool touching;
  bool ended; /* state is not kAlive */
  bool dead;
  byte buffers;    /* of the caller's: the operation that may use them, 0: none */
  bool fenced[RANKS]; /* what that rank writes is not seen */
  byte part[RANKS] /* of its result, by owner: the operation that it is of */
}
Rank ranks[RANKS];
byte way[OPS + 1];
byte deaths, aborts;

#ifdef DEATH
#define MAY_DIE if :: deaths < 1 -> deaths++; ranks[self].dead = true; goto gone :: true fi
#else
#define MAY_DIE skip
#endif

#define GONE(peer) (ranks[peer].dead || ranks[peer].ended)
#define GOES(which) atomic { assert(way[op] == 0 || way[op] == which); way[op] = which }

/* Until every peer's flag has come to this operation; or one will not come, or this rank aborts. */
#define WAIT_FOR_ALL(flag) \
  peer = 0; \
  do \
  :: peer == RANKS -> break \
  :: peer == self -> peer++ \
  :: peer < RANKS && peer != self && ranks[peer].flag >= op -> peer++ \
  :: peer < RANKS && peer != self && ranks[peer].flag < op && GONE(peer) -> goto fail \
  :: peer < RANKS && peer != self && ranks[peer].flag < op && aborts < 1 -> aborts++; goto fail \
  od

proctype rank(byte self) {
  byte op = 1, peer, slice;
  do
  :: op > OPS -> break
  :: else ->
    ranks[self].buffers = op;
    MAY_DIE;
    if
    :: true -> goto usual
    :: true
    fi;
#ifdef BUG_OFFER_FIRST
    ranks[self].offer = op;
    ranks[self].offered = op;
#else
    ranks[self].offered = op;
    ranks[self].offer = op;
#endif
    MAY_DIE;

    peer = 0;
    do
    :: peer == RANKS -> break
    :: peer == self -> peer++
    :: else ->
      if
      :: ranks[peer].offer >= op || ranks[peer].put >= op || GONE(peer)
      :: aborts < 1 -> aborts++; goto fail
      fi;
      if /* one look after the other */
      :: ranks[peer].offer >= op -> peer++
      :: else ->
        if
#ifdef BUG_ANY_ANSWER
        :: ranks[peer].put >= op -> peer++
#else
        :: ranks[peer].put >= op -> goto usual
#endif
        :: ranks[peer].put < op && ranks[peer].offer < op && GONE(peer) -> goto fail
        :: else
        fi
      fi
    od;

    GOES(MAPPED);
#ifdef BUG_DONE_EARLY
    ranks[self].done = op;
#endif
    slice = 0;
    do
    :: slice == SLICES -> break
    :: else ->
#ifndef BUG_LOOK_FIRST
      ranks[self].touching = true;
#endif
      peer = 0;
      do
      :: peer == RANKS -> break
      :: peer < RANKS && ranks[peer].ended -> ranks[self].touching = false; goto fail
      :: peer < RANKS && !ranks[peer].ended -> peer++
      od;
#ifdef BUG_LOOK_FIRST
      ranks[self].touching = true;
#endif
      peer = 0;
      do
      :: peer == RANKS -> break
      :: peer < RANKS ->
        d_step {
          assert(ranks[peer].offered == op);
          if
          :: ranks[peer].fenced[self]
          :: else ->
            assert(ranks[peer].buffers == op);
            ranks[peer].part[self] = (slice == SLICES - 1 -> op : 0)
          fi;
          peer++
        };
        MAY_DIE
      od;
      ranks[self].touching = false;
      slice++;
      if :: slice < SLICES && aborts < 1 -> aborts++; goto fail :: true fi
    od;
    MAY_DIE;
    ranks[self].done = op;
    WAIT_FOR_ALL(done);
    atomic {
      peer = 0;
      do
      :: peer == RANKS -> break
      :: peer < RANKS -> assert(ranks[self].part[peer] == op); peer++
      od
    };
    goto next;

usual:
    GOES(USUAL);
    ranks[self].put = op;
    WAIT_FOR_ALL(put);
    MAY_DIE;
    ranks[self].done = op;
    WAIT_FOR_ALL(done);

next:
    ranks[self].buffers = 0;
    op++
  od;
  ranks[self].ended = true; /* it leaves */
  goto gone;

fail:
  assert(aborts + deaths > 0);
#ifndef BUG_WAIT_FIRST
  ranks[self].ended = true;
#endif
#ifndef BUG_NO_WAIT
  peer = 0;
  do
  :: peer == RANKS -> break
  :: peer < RANKS ->
    if
    :: !ranks[peer].touching || ranks[peer].dead
#ifdef STOP
    :: ranks[peer].touching && peer != self -> ranks[self].fenced[peer] = true
#endif
#ifdef BUG_NO_FENCE
    :: ranks[peer].touching
#endif
    fi;
    peer++
  od;
#endif
#ifdef BUG_WAIT_FIRST
  ranks[self].ended = true;
#endif
  ranks[self].buffers = 0;
gone: skip
}

init {
  byte i = 0;
  atomic { do :: i < RANKS -> run rank(i); i++ :: else -> break od }
}
