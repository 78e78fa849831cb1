/* A copy of a ring's latest record beside the cursor that tells of it (src/shm/latest_record.h): a seqlock whose
 * sequence number is the cursor. The writer copies a record or not, as it is small or not.
 *
 * Shown: the reader gets every record once and in order, from the copy or from the ring, and never a mixture of two.
 *
 * -DBUG_STILL_TOLD, -DBUG_ONE_LOOK, -DBUG_CURSOR_FIRST and -DBUG_NOT_ALONE must each be found. */
#define RECORDS 5
#define COPIED 1                      /* in the cursor: there is a copy of the record before that position */
#define POSITION(cursor) ((cursor) / 2)

byte ring[RECORDS]; /* which has room for all: see ring.pml */
byte word[2];       /* of the copy */
byte cursor;        /* 2 * records + COPIED or 0 */

active proctype writer() {
  byte record;
  do
  :: record == RECORDS -> break
  :: else ->
    ring[record] = record + 1;
    record++;
    if
    :: true -> cursor = 2 * record /* release */
    :: true ->
#ifdef BUG_CURSOR_FIRST
      cursor = 2 * record + COPIED;
#endif
#ifndef BUG_STILL_TOLD
      if
      :: cursor == 2 * record - 2 + COPIED -> cursor = 2 * record - 2
      :: else
      fi;
#endif
      word[0] = record; /* release */
      word[1] = record; /* release */
      cursor = 2 * record + COPIED /* release */
    fi
  od
}

active proctype reader() {
  byte read, seen, first, second;
  do
  :: read == RECORDS -> break
  :: else ->
    (POSITION(cursor) != read);
    seen = cursor; /* acquire */
    if
#ifdef BUG_NOT_ALONE
    :: seen % 2 == COPIED ->
#else
    :: seen % 2 == COPIED && POSITION(seen) == read + 1 ->
#endif
      first = word[0];  /* acquire */
      second = word[1]; /* acquire */
      if
#ifdef BUG_ONE_LOOK
      :: true ->
#else
      :: cursor == seen ->
#endif
        assert(first == read + 1 && second == read + 1);
        read++
      :: else -> goto in_ring
      fi
    :: else ->
in_ring:
      do
      :: read == POSITION(seen) -> break
      :: else -> assert(ring[read] == read + 1); read++
      od
    fi
  od
}
