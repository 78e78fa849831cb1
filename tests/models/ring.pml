/* The packet ring (src/shm/ring.h): records of up to half the ring that never wrap, skip marks, 64-bit cursors.
 *
 * Shown: the reader gets every record once, whole and in order, and never reads a unit that the writer is
 * changing; neither side waits for ever while the other has room or records, and with -DDEATH either ends although the
 * other dies anywhere, the reader with all that was published.
 *
 * -DBUG_HEAD_FIRST, -DBUG_NO_SKIP, -DBUG_TAIL_FIRST, -DBUG_LONG_RECORD must each be found. */
#define UNITS 6
#define RECORDS 6
#define SKIP 255

byte unit[UNITS]; /* the number of the record that the unit is part of */
byte length[UNITS];
byte head, tail; /* published */
bool writer_dead, reader_dead;

#ifdef DEATH
#define MAY_DIE(who) if :: who = true; goto end :: true fi
#else
#define MAY_DIE(who) skip
#endif

active proctype writer() {
  byte written, record = 1, need, skip_units, i;
  do
  :: record > RECORDS -> break
  :: else ->
    if
    :: need = 1
    :: need = 2
    :: need = 3
#ifdef BUG_LONG_RECORD /* longer than half: behind a skip it may never fit */
    :: need = 4
#endif
    fi;
    skip_units = 0;
    if
#ifndef BUG_NO_SKIP
    :: need > UNITS - written % UNITS -> skip_units = UNITS - written % UNITS
#endif
    :: else
    fi;
    MAY_DIE(writer_dead);
    (written + skip_units + need - tail <= UNITS || reader_dead); /* the acquire of tail */
    if
    :: written + skip_units + need - tail > UNITS -> break
    :: else
    fi;
    if
    :: skip_units != 0 -> length[written % UNITS] = SKIP; written = written + skip_units
    :: else
    fi;
#ifdef BUG_HEAD_FIRST
    head = written + need;
#endif
    length[written % UNITS] = need;
    i = 0;
    do
    :: i < need -> MAY_DIE(writer_dead); assert(written % UNITS + i < UNITS); unit[written % UNITS + i] = record; i++
    :: else -> break
    od;
    written = written + need;
    MAY_DIE(writer_dead);
    head = written; /* release */
    record++
  od;
end: skip
}

active proctype reader() {
  byte read, seen, record = 1, need, i;
  bool gone;
  do
  :: record > RECORDS -> break
  :: else ->
    MAY_DIE(reader_dead);
    (head != read || writer_dead); /* the acquire of head */
    gone = writer_dead; /* before the look: what was published counts */
    seen = head;
    if
    :: gone && seen == read -> break
    :: else
    fi;
    do
    :: read != seen ->
      need = length[read % UNITS];
      if
      :: need == SKIP -> read = read + UNITS - read % UNITS
      :: else ->
        assert(need >= 1 && need <= seen - read);
#ifdef BUG_TAIL_FIRST
        tail = read + need;
#endif
        i = 0;
        do
        :: i < need -> MAY_DIE(reader_dead); assert(unit[read % UNITS + i] == record); i++
        :: else -> break
        od;
        read = read + need;
        record++
      fi
    :: else -> break
    od;
    MAY_DIE(reader_dead);
    tail = read /* release */
  od;
  assert(!writer_dead || reader_dead || read == head);
end: skip
}
