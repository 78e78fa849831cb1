/* Swap buffers (src/shm/swap_buffers.h): two ranks that send each other messages, each in a buffer that is the
 * sender's or, if it has none, in its ring; one in a buffer may come in two parts, with a record each. Records go
 * through the rings (ring.pml): here in order, and published at once. Which of its buffers a rank takes is left open, it
 * may send while it reads, and may put its next message where the last one came (Transport::answer).
 *
 * Shown: a reader gets every message whole, nobody writes to a buffer that another one reads or has yet to read, and
 * all buffers are somebody's at the end.
 *
 * -DBUG_HEAD_FIRST, -DBUG_GIVE_FIRST, -DBUG_KEEP, -DBUG_NOT_GIVEN, -DBUG_PART_GIVEN, -DBUG_ANSWER_GIVEN,
 * -DBUG_ANSWER_FIRST must each be found. */
#define EACH 2
#define BUFFERS 4
#define MESSAGES 3
#define RECORDS (2 * MESSAGES)
#define NONE 255

byte half[2 * BUFFERS];     /* of each buffer's contents: the message in it */
byte record[2 * RECORDS];   /* by sender and number: the buffer, or NONE */
bool goes_on[2 * RECORDS];  /* the rest of the message is in the next one */
byte head[2];               /* records published */
byte ended, left;           /* ranks, and buffers that they had then */

#define MESSAGE(from, number) (from * MESSAGES + number + 1)

/* Nobody looks there again: fewer states. */
#define FORGET(read) d_step { from = 0; record[(1 - me) * RECORDS + read] = 0; goes_on[(1 - me) * RECORDS + read] = 0; read++ }

inline send() {
  taken = NONE;
  if
  :: own[0] -> taken = 0
  :: own[1] -> taken = 1
  :: own[2] -> taken = 2
  :: own[3] -> taken = 3
  :: !own[0] && !own[1] && !own[2] && !own[3]
  fi;
#ifdef BUG_HEAD_FIRST
  record[me * RECORDS + put] = taken;
  head[me] = put + 1;
#endif
  if
  :: taken != NONE ->
#ifndef BUG_KEEP
    own[taken] = false;
#endif
    half[2 * taken] = MESSAGE(me, sent);
    if
    :: record[me * RECORDS + put] = taken;
      goes_on[me * RECORDS + put] = true;
      put++;
      head[me] = put /* release */
    :: true
    fi;
    half[2 * taken + 1] = MESSAGE(me, sent)
  :: else
  fi;
  record[me * RECORDS + put] = taken;
  sent++;
  put++;
  head[me] = put; /* release */
  taken = 0
}

active [2] proctype rank() {
  bool own[BUFFERS];
  byte me = _pid, sent, put, got, read, taken, from, i;
  own[me * EACH] = true;
  own[me * EACH + 1] = true;
  do
  :: sent < MESSAGES -> send()
  :: read < head[1 - me] && goes_on[(1 - me) * RECORDS + read] -> /* the acquire of head */
    from = record[(1 - me) * RECORDS + read];
    assert(half[2 * from] == MESSAGE((1 - me), got));
#ifdef BUG_PART_GIVEN
    own[from] = true;
#endif
    FORGET(read)
  :: read < head[1 - me] && !goes_on[(1 - me) * RECORDS + read] ->
    from = record[(1 - me) * RECORDS + read];
    if
    :: from != NONE ->
#ifdef BUG_GIVE_FIRST
      own[from] = true;
#endif
      assert(half[2 * from] == MESSAGE((1 - me), got));
      if
      :: sent < MESSAGES -> send()
      :: true
      fi;
      assert(half[2 * from + 1] == MESSAGE((1 - me), got));
      if
#ifndef BUG_NOT_GIVEN
      :: own[from] = true
#else
      :: true
#endif
      :: sent < MESSAGES ->
#ifdef BUG_ANSWER_GIVEN
        own[from] = true;
#endif
#ifdef BUG_ANSWER_FIRST
        record[me * RECORDS + put] = from;
        head[me] = put + 1;
#endif
        half[2 * from] = MESSAGE(me, sent);
        half[2 * from + 1] = MESSAGE(me, sent);
        record[me * RECORDS + put] = from;
        sent++;
        put++;
        head[me] = put /* release */
      fi
    :: else
    fi;
    got++;
    FORGET(read)
  :: sent == MESSAGES && got == MESSAGES -> break
  od;
  atomic {
    do
    :: i < BUFFERS -> left = left + own[i]; i++
    :: else -> break
    od;
    ended++;
    assert(ended < 2 || left == BUFFERS)
  }
}
