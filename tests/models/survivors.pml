/* floe_comm_shrink inside a host (src/comm/shrink.cpp): rounds on boards in shared memory, of which a
 * compare-and-swap on rank 0's chooses one proposal; then a vote of those that it names. Ranks die anywhere, all but
 * one of them, and one of them may be unable to wire up.
 *
 * Shown: every rank that lives ends, with a communicator or an error; those that get one get the same; whoever is not
 * in it is dead; an error of one that could not wire up is everybody's.
 *
 * -DBUG_NO_CAS, -DBUG_EARLY, -DBUG_NO_SECOND_LOOK, -DBUG_NO_ROUND, -DBUG_MARK_FIRST must each be found. */
#define RANKS 3
#define ALL 7
#define IN(set, rank) ((set) >> (rank) & 1)
#define ALIVE_OR(p, condition) (ranks[p].dead || (condition))

typedef Rank {
  byte entered;         /* ShrinkBoard::entered */
  byte round, progress; /* ShrinkBoard::published, in one word */
  byte proposal;        /* ShrinkBoard::ranks */
  bool dead;
  byte got, got_in; /* ghost: the communicator it returns, and its round */
  byte failed_in    /* ghost: the round after which it returns an error */
}
Rank ranks[RANKS];
byte decided_round, decided_by; /* ShrinkBoard::decision, in one word */
byte deaths, failures;

#define VOTED 1
#define GAVE_UP 2
#ifdef BUG_NO_ROUND
#define PROGRESS(p) (ranks[p].progress)
#else
#define PROGRESS(p) (ranks[p].round == round -> ranks[p].progress : 0)
#endif
#define ACCOUNTED(p) ALIVE_OR(p, ranks[p].entered >= round)
#define DEAD_SET (ranks[0].dead | ranks[1].dead << 1 | ranks[2].dead << 2)

/* The last one has nobody to disagree with. */
#define MAY_DIE if :: deaths < RANKS - 1 -> atomic { deaths++; ranks[self].dead = true; goto end } :: true fi

proctype rank(byte self) {
  byte round, members, peer, dead, seen;
  bool missing, gave_up;
next_round:
  MAY_DIE;
  d_step {
    round = (ranks[self].entered > decided_round -> ranks[self].entered : decided_round) + 1;
    seen = decided_round
  }
  ranks[self].entered = round;
  MAY_DIE;
  do
  :: decided_round >= round -> break
#ifdef BUG_EARLY
  :: decided_round < round ->
    dead = ALL & ~(1 << self); /* nobody else has come yet, as far as it knows */
    peer = 0;
    d_step {
      do
      :: peer < RANKS ->
        if
        :: ranks[peer].entered >= round -> dead = dead & ~(1 << peer)
        :: else
        fi;
        peer++
      :: else -> break
      od
    }
#else
  :: decided_round < round && ACCOUNTED(0) && ACCOUNTED(1) && ACCOUNTED(2) ->
    dead = DEAD_SET;
#endif
#ifdef BUG_MARK_FIRST
    atomic {
      if
      :: decided_round < round -> decided_round = round; decided_by = self
      :: else
      fi
    };
#endif
    MAY_DIE;
    ranks[self].proposal = ALL & ~dead;
    MAY_DIE;
#ifdef BUG_NO_CAS
    if
    :: decided_round < round -> d_step { decided_round = round; decided_by = self }
    :: else
    fi
#else
    atomic {
      if
      :: decided_round < round -> decided_round = round; decided_by = self
      :: else
      fi
    }
#endif
  od;
  members = ranks[decided_by].proposal;
  assert(IN(members, self)); /* a proposal leaves nobody out that has come */
  MAY_DIE;

  /* The wire-up, whose phases all end here or in a vote. */
  atomic {
    if
    :: failures < 1 -> failures++; ranks[self].round = round; ranks[self].progress = GAVE_UP
    :: ranks[self].round = round; ranks[self].progress = VOTED
    fi
  }
  MAY_DIE;
  peer = 0;
  missing = false;
  gave_up = false;
  do
  :: peer == RANKS -> break
  :: peer < RANKS && !IN(members, peer) -> peer++
  :: peer < RANKS && IN(members, peer) ->
    seen = PROGRESS(peer);
    if
    :: seen == 0 && ranks[peer].dead ->
#ifndef BUG_NO_SECOND_LOOK
      seen = PROGRESS(peer);
#endif
      missing = missing || seen == 0
    :: seen == 0 && !ranks[peer].dead -> (PROGRESS(peer) != 0 || ranks[peer].dead); goto again
    :: else
    fi;
    gave_up = gave_up || seen == GAVE_UP;
    peer++;
again: skip
  od;
  if
  :: missing -> goto next_round
  :: !missing && gave_up -> ranks[self].failed_in = round
  :: else ->
    d_step {
      ranks[self].got = members;
      ranks[self].got_in = round;
      peer = 0;
      do
      :: peer < RANKS ->
        assert(ranks[peer].got == 0 || (ranks[peer].got == members && ranks[peer].got_in == round));
        assert(ranks[peer].failed_in == 0);
        assert(IN(members, peer) || ranks[peer].dead);
        peer++
      :: else -> break
      od
    }
  fi;
end: skip
}

init {
  atomic { run rank(0); run rank(1); run rank(2) }
}
