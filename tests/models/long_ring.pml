/* A ring that goes on through a swap buffer behind it (src/shm/ring.h): what the reader keeps past its cache goes there
 * while the buffer is the writer's, all else only to the end of a lap. The buffer also carries messages, and comes back
 * with one of the reader's (swap.pml, of which nothing else is here).
 *
 * Shown: the reader gets every record and message whole and in order, whoever has the buffer gets what is his, and the
 * writer always finds room.
 *
 * -DBUG_NOT_ITS_OWN, -DBUG_TAKEN_UNREAD, -DBUG_SKIP_LATER and -DBUG_SKIP_BEHIND must each be found. */
#define BUFFER 5   /* where it begins */
#define UNITS 7
#ifdef BUG_SKIP_BEHIND
#define LAP 5
#else
#define LAP 4      /* with room for a skip mark */
#endif
#define RECORDS 7
#define SKIP 255

/* What a unit holds: a record's beginning, or the rest of one; or a message's. */
#define RECORD(number, need, swapped) (1 + 8 * number + 2 * (need - 1) + swapped)
#define REST(number) (100 + number)
#define MESSAGE(number) (150 + number)
#define ANSWER(number) (200 + number)

byte unit[UNITS];
byte head, tail;     /* published */
byte answers;        /* published */

inline take_answer() {
  assert(unit[BUFFER] == ANSWER(taken) && unit[BUFFER + 1] == ANSWER(taken));
  taken++;
  own = true
}

active proctype writer() {
  byte written, at, behind, record, need, skip_units, taken;
  bool own = true, past, swapped;
  do
  :: answers > taken -> take_answer() /* the acquire of the other ring's head */
  :: record < RECORDS ->
    if
    :: past = true
    :: past = false
    fi;
    swapped = false;
    if
    :: past || !own -> need = 1
    :: past || !own -> need = 2
    :: !past && own ->
      need = 1;
      swapped = true;
#ifndef BUG_SKIP_LATER
      swapped = swapped && at <= LAP;
#endif
#ifndef BUG_TAKEN_UNREAD
      swapped = swapped && tail >= behind /* the acquire of tail */
#endif
    fi;
    skip_units = 0;
    if
#ifdef BUG_NOT_ITS_OWN
    :: past && at + need <= UNITS
#else
    :: past && own && at + need <= UNITS
#endif
    :: !(past && own) && at + need <= LAP
    :: else -> skip_units = UNITS - at
    fi;
    (written + skip_units + need - tail <= UNITS); /* the acquire of tail */
    if
    :: skip_units != 0 ->
      unit[at] = SKIP;
      written = written + skip_units;
      behind = (at > LAP -> written : behind);
      at = 0
    :: else
    fi;
    if
    :: swapped ->
      own = false;
      unit[BUFFER] = MESSAGE(record);
      unit[BUFFER + 1] = MESSAGE(record)
    :: else
    fi;
    unit[at] = RECORD(record, need, swapped);
    if
    :: need == 2 -> unit[at + 1] = REST(record)
    :: else
    fi;
    written = written + need;
    behind = (at + need > LAP -> written : behind);
    at = (at + need) % UNITS;
    record++;
    head = written /* release */
  :: record == RECORDS -> break
  od
}

active proctype reader() {
  byte read, record, need, given, i;
  bool own, swapped;
  do
  :: own -> /* an answer */
    unit[BUFFER] = ANSWER(given);
    unit[BUFFER + 1] = ANSWER(given);
    own = false;
    given++;
    answers = given /* release */
  :: head > read -> /* the acquire of head */
    i = read % UNITS;
    if
    :: unit[i] == SKIP -> read = read + UNITS - i
    :: else ->
      d_step {
        swapped = (unit[i] - 1) % 2;
        need = 1 + (unit[i] - 1) / 2 % 4;
        assert(need <= 2 && unit[i] == RECORD(record, need, swapped))
      };
      if
      :: need == 2 -> assert(unit[i + 1] == REST(record))
      :: else
      fi;
      if
      :: swapped -> assert(unit[BUFFER] == MESSAGE(record) && unit[BUFFER + 1] == MESSAGE(record)); own = true
      :: else
      fi;
      read = read + need;
      record++;
      tail = read /* release */
    fi
  :: record == RECORDS && !own -> break
  od
}
