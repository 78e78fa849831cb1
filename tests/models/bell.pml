/* Sleeping and waking (src/shm/bell.h, Engine::sleep) on a machine that delays stores (TSO): two threads of the
 * sleeping rank, of which one polls for both, and two operations that one publication of a peer completes.
 *
 * Shown: once the peer has published, both threads get to see their operation complete; nobody sleeps for
 * ever; with -DDEATH neither when the peer dies anywhere, also before it has rung. The limit on each sleep, which floe
 * has as well, is left out: it would hide a lost wake-up.
 *
 * -DBUG_NO_FENCE, -DBUG_NO_RECHECK, -DBUG_BOTH_POLL, -DBUG_NO_HANDOVER must each be found. */
bool published; /* in memory */
bool buffered;  /* the publication, still in the waker's store buffer */
bool complete;  /* both operations, completed by whoever makes a pass */
bool dead;      /* what the peer's pidfd says */
byte sleeping;  /* BellPage::sleeping */
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
  buffered = true;
  MAY_DIE;
#ifndef BUG_NO_FENCE
  (!buffered && published);
#endif
  MAY_DIE;
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

active [2] proctype waiter() {
  bool moved, follow;
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
      sleeping++;
#ifndef BUG_NO_RECHECK
      progress();
      if
      :: moved || complete
      :: else -> (event != 0 || (dead && !buffered)) /* poll(2) */
      fi;
#else
      (event != 0 || (dead && !buffered));
#endif
      event = 0;
      sleeping--;
      progress();
      check();
      LOCK;
      polling = false;
      UNLOCK
    fi
  od
}
