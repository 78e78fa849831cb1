/* Sleeping and waking (src/shm/bell.h, Engine::sleep) on a machine that delays stores (TSO): two threads of the
 * sleeping rank, of which one polls for both, and two operations that one publication of a peer completes.
 *
 * Shown: once the peer has published, both threads get to see their operation complete; nobody sleeps for
 * ever; with -DDEATH neither when the peer dies anywhere, also before it has rung. The peer has a fence, or, in a group
 * that is made while the rank may be going to sleep, none: then whoever goes to sleep empties its store buffer
 * (membarrier(2)), or limits its sleep if that is refused, or has asked for the peer's fence before. The limit on each
 * sleep, which floe has as well, would hide a lost wake-up: there is one end of a sleep without cause.
 *
 * -DBUG_NO_FENCE, -DBUG_NO_RECHECK, -DBUG_BOTH_POLL, -DBUG_NO_HANDOVER, -DBUG_NO_MEMBARRIER, -DBUG_EARLY_LOOK,
 * -DBUG_NO_LIMIT, -DBUG_DEAF, -DBUG_ASKS_UNHEARD, -DBUG_FORGETS must each be found. */
bool published; /* in memory */
bool buffered;  /* the publication, still in the waker's store buffer */
bool complete;  /* both operations, completed by whoever makes a pass */
bool dead;      /* what the peer's pidfd says */
byte sleeping;  /* BellPage::state: kSleeps */
bool asks;      /* and kAsks */
bool asked;     /* Bell::asked_ */
bool early;     /* a sleep has ended without cause */
bool unfenced;  /* Engine::rung_unfenced_ */
byte event;     /* the eventfd */
bool mutex;     /* sleep_mutex_ */
bool polling;
byte followers;
byte news;

#define LOCK atomic { !mutex -> mutex = true }
#define UNLOCK mutex = false

/* A store leaves the buffer at any time, or at a fence. */
active proctype store_buffer() {
end:
  do
  :: atomic { buffered -> published = true; buffered = false }
  od
}

#ifdef DEATH
#define MAY_DIE if :: dead = true; goto end :: true fi
#else
#define MAY_DIE skip
#endif

active proctype peer() {
  MAY_DIE;
  if
  :: unfenced = true /* Engine::add() on the other rank, for which the peer waits */
  :: true
  fi;
  MAY_DIE;
  buffered = true;
  MAY_DIE;
#ifndef BUG_NO_FENCE
  (unfenced || (!buffered && published));
#endif
  MAY_DIE;
  if
#ifndef BUG_DEAF
  :: sleeping != 0 || asks -> (!buffered && published) /* Bell::look_again() */
#endif
  :: else
  fi;
  if
  :: sleeping != 0 -> MAY_DIE; event = 1
  :: else
  fi;
end: skip
}

inline wake_sleepers() {
  if
  :: sleeping != 0 -> event = 1
  :: else
  fi;
  if
  :: followers != 0 -> LOCK; news++; UNLOCK
  :: else
  fi
}

inline progress() { /* under the engine's lock */
  atomic {
    moved = false;
    if
    :: published && !complete -> complete = true; moved = true
    :: else
    fi
  }
}

/* Group::check(): what waits for a rank that is gone ends. */
inline check() {
  atomic {
    if
    :: dead && !buffered -> complete = true
    :: else
    fi
  }
}

/* Bell::begin_sleep() */
inline begin_sleep() {
  if
  :: often = true
  :: often = false
  fi;
#ifdef BUG_EARLY_LOOK
  for_all = unfenced;
  atomic { sleeping++; asks = often }
#else
  atomic { sleeping++; asks = often }
  for_all = unfenced;
#endif
  heard = true;
#ifdef BUG_ASKS_UNHEARD
  for_all = for_all && !often;
#endif
  for_all = for_all && !asked;
#ifndef BUG_NO_MEMBARRIER
  atomic {
    if
    :: for_all && buffered -> published = true; buffered = false
    :: for_all && !buffered
    :: for_all -> heard = false
    :: !for_all
    fi
  }
#endif
  asked = often && heard;
#ifdef BUG_NO_LIMIT
  heard = true
#endif
}

#define WAKES                                             \
  if                                                      \
  :: event != 0 || !heard || (dead && !buffered)          \
  :: atomic { !early -> early = true }                    \
  fi

active [2] proctype waiter() {
  bool moved, follow, for_all, heard, often;
  byte seen;
  do
  :: complete -> break
  :: else ->
    /* Engine::pass(), which any thread may make at any time */
    if
    :: progress();
      if
      :: moved -> wake_sleepers()
      :: else
      fi
    :: true
    fi;
    /* Engine::sleep() */
    LOCK;
#ifdef BUG_BOTH_POLL
    follow = false;
#else
    follow = polling;
#endif
    if
    :: follow ->
      seen = news;
      followers++;
      if
      :: complete -> UNLOCK
      :: else ->
        UNLOCK;
#ifdef BUG_NO_HANDOVER
        (news != seen)
#else
        (news != seen || !polling)
#endif
      fi;
      followers--
    :: else ->
      polling = true;
      UNLOCK;
      begin_sleep();
#ifndef BUG_NO_RECHECK
      progress();
      if
      :: moved || complete
      :: else -> WAKES /* poll(2) */
      fi;
#else
      WAKES;
#endif
      event = 0;
#ifdef BUG_FORGETS
      atomic { sleeping--; asks = false }
#else
      atomic { sleeping--; asks = asked }
#endif
      progress();
      check();
      LOCK;
      polling = false;
      UNLOCK
    fi
  od
}
