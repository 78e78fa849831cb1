/* Sleeping and waking (src/shm/bell.h, Engine::sleep) on a machine that delays stores (TSO): two threads of the
 * sleeping rank, of which one polls for both, and two operations that one publication of a peer completes.
 *
 * Shown: once the peer has published, both threads get to see their operation complete; nobody sleeps for
 * ever. The limit on each sleep, which floe has as well, is left out: it would hide a lost wake-up.
 *
 * -DBUG_NO_FENCE, -DBUG_NO_RECHECK, -DBUG_BOTH_POLL, -DBUG_NO_HANDOVER must each be found. */
bool published; /* in memory */
bool buffered;  /* the publication, still in the waker's store buffer */
bool complete;  /* both operations, completed by whoever makes a pass */
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

active proctype peer() {
  buffered = true;
#ifndef BUG_NO_FENCE
  (!buffered && published);
#endif
  if
  :: sleeping != 0 -> event = 1
  :: else
  fi
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
      :: else -> (event != 0) /* poll(2) */
      fi;
#else
      (event != 0);
#endif
      event = 0;
      sleeping--;
      progress();
      LOCK;
      polling = false;
      UNLOCK
    fi
  od
}
