/* Agreement (src/comm/agreement.h): Paxos over hosts, with the wire-up of an attempt between its two phases, in
 * three ballots at once, whose coordinators may stop anywhere, as may the ranks: as if they had died. Boards are heard
 * in any order, or not.
 *
 * Shown: nobody decides anything but what another decides; whatever is decided, all its members hold, which they
 * keep although a later attempt has begun.
 *
 * -DBUG_NO_ADOPTION, -DBUG_NO_QUORUM, -DBUG_UNREADY, -DBUG_DROPS must each be found. */
#define HOSTS 3
byte promised[HOSTS], accepted[HOSTS], value[HOSTS]; /* ballots; the attempt accepted */
bool promise[12];                                    /* [ballot * HOSTS + host]: the host's answer, for ever */
byte found[12], found_value[12];                     /* with it: what it had accepted */
bool vote[12];                                       /* the host accepted this ballot */
bool wire_up[4];                                     /* the ballot has got past its promises, with an own attempt */
bool holds[12];                                      /* [attempt * HOSTS + host]: its rank has the communicator */
byte proposal[4];                                    /* of a ballot: the attempt to accept, 0: none yet */
byte tried[HOSTS];                                   /* no earlier attempt is begun any more */
byte decided;
#define AT(ballot, host) ((ballot) * HOSTS + (host))

/* The members of the second attempt are two of the three. */
#define IN(attempt, h) ((attempt) != 2 || (h) != 2)
#define ALL_HOLD(attempt) \
  holds[AT(attempt, 0)] && holds[AT(attempt, 1)] && (holds[AT(attempt, 2)] || !IN(attempt, 2))

/* What the rank of a host does as voter and member, on any board that it happens to have heard. It may also have
 * died: then it does nothing more. */
#define PROMISE(b, h) \
  atomic { b > promised[h] -> \
    promised[h] = b; \
    found[AT(b, h)] = accepted[h]; \
    found_value[AT(b, h)] = value[h]; \
    promise[AT(b, h)] = true }
#define VOTE(b, h) \
  atomic { proposal[b] != 0 && b >= promised[h] && b > accepted[h] -> \
    promised[h] = b; \
    accepted[h] = b; \
    value[h] = proposal[b]; \
    vote[AT(b, h)] = true }
#ifdef BUG_DROPS
#define DROP(b, h) holds[AT(b - 1, h)] = false
#else
#define DROP(b, h) skip
#endif
#define MAKE(b, h) \
  atomic { wire_up[b] && IN(b, h) && !holds[AT(b, h)] && b >= tried[h] -> \
    tried[h] = b; \
    holds[AT(b, h)] = true; \
    DROP(b, h) }
#define ALL(b, h) :: PROMISE(b, h) :: VOTE(b, h) :: MAKE(b, h)

proctype hosts() {
end:
  do
  ALL(1, 0) ALL(1, 1) ALL(1, 2)
  ALL(2, 0) ALL(2, 1) ALL(2, 2)
  ALL(3, 0) ALL(3, 1) ALL(3, 2)
  od
}

/* Any quorum of the boards that say so: what they say holds for ever, so that when they came does not matter. */
#define PROMISED(b, h) promise[AT(b, h)]
#define LOOK(b, h) \
  if \
  :: found[AT(b, h)] > latest -> latest = found[AT(b, h)]; attempt = found_value[AT(b, h)] \
  :: else \
  fi

/* One that blocks for ever has died. */
proctype coordinator(byte b) {
  byte latest, attempt;
end_1:
  atomic {
    if
#ifdef BUG_NO_QUORUM
    :: PROMISED(b, 0) -> LOOK(b, 0)
    :: PROMISED(b, 1) -> LOOK(b, 1)
    :: PROMISED(b, 2) -> LOOK(b, 2)
#endif
    :: PROMISED(b, 0) && PROMISED(b, 1) -> LOOK(b, 0); LOOK(b, 1)
    :: PROMISED(b, 0) && PROMISED(b, 2) -> LOOK(b, 0); LOOK(b, 2)
    :: PROMISED(b, 1) && PROMISED(b, 2) -> LOOK(b, 1); LOOK(b, 2)
    :: PROMISED(b, 0) && PROMISED(b, 1) && PROMISED(b, 2) -> LOOK(b, 0); LOOK(b, 1); LOOK(b, 2)
    fi;
    latest = 0;
#ifdef BUG_NO_ADOPTION
    attempt = 0;
#endif
    if
    :: attempt == 0 -> attempt = b; wire_up[b] = true
    :: else
    fi
  }
end_2:
  atomic {
#ifdef BUG_UNREADY
    true;
#else
    attempt != b || (ALL_HOLD(b));
#endif
    proposal[b] = attempt
  }
end_3:
  atomic {
#ifdef BUG_NO_QUORUM
    vote[AT(b, 0)] || vote[AT(b, 1)] || vote[AT(b, 2)];
#else
    vote[AT(b, 0)] + vote[AT(b, 1)] + vote[AT(b, 2)] >= 2;
#endif
    assert(decided == 0 || decided == attempt);
    decided = attempt;
    assert(ALL_HOLD(attempt));
    attempt = 0
  }
}

init {
  atomic { run hosts(); run coordinator(1); run coordinator(2); run coordinator(3) }
}
