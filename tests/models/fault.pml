/* How the end of a rank reaches another one on its host (Group::publish_fault, check_alarm and check_members): a
 * record, a state, and an alarm in the segment of the one that is told; and pidfds. Two ranks fail, leave or die, at
 * any moment of that, and each may die after it. The checks that are made now and then are left out: they would hide
 * an alarm that is lost.
 *
 * Shown: the rank that is told learns of both, or of a fault, whose record is complete; of one that left or failed
 * properly it does not say that it died.
 *
 * -DBUG_STATE_FIRST, -DBUG_ALARM_FIRST, -DBUG_CLEAR_LATE, -DBUG_NO_STATE_OF_DEAD must each be found. */
#define PEERS 2
mtype = { alive, left, failed, dead };

typedef Peer {
  byte record; /* FaultRecord: two words */
  mtype state;
  bool ended /* its pidfd says so */
}
Peer peers[PEERS];
bool alarm; /* in the segment of the one that is told */

#define MAY_DIE if :: peers[self].ended = true; goto end :: true fi

proctype peer(byte self) {
  mtype end_state;
  if
  :: end_state = left
  :: end_state = failed
  fi;
  MAY_DIE;
#ifdef BUG_ALARM_FIRST
  alarm = true;
#endif
#ifdef BUG_STATE_FIRST
  peers[self].state = end_state;
#endif
  if
  :: end_state == failed -> peers[self].record = 1; MAY_DIE; peers[self].record = 2
  :: else
  fi;
  MAY_DIE;
  peers[self].state = end_state; /* release */
  MAY_DIE;
#ifndef BUG_ALARM_FIRST
  alarm = true; /* release */
#endif
  MAY_DIE;
end: skip
}

proctype told() {
  byte p;
  mtype state;
  mtype knows[PEERS];
  knows[0] = alive;
  knows[1] = alive;
  do
  :: knows[0] != alive && knows[1] != alive -> break
  :: else ->
    /* It sleeps until a bell rings, which follows each alarm, or a pidfd of one that it takes for alive is ready. */
    (alarm || (peers[0].ended && knows[0] == alive) || (peers[1].ended && knows[1] == alive));
#ifndef BUG_CLEAR_LATE
    alarm = false;
#endif
    p = 0;
    do
    :: p < PEERS && knows[p] == alive ->
      state = peers[p].state; /* acquire */
      if
      :: state == alive && peers[p].ended ->
#ifndef BUG_NO_STATE_OF_DEAD
        state = peers[p].state; /* again: it may have left or failed just before */
#endif
        assert(state == peers[p].state);
        knows[p] = (state == left -> left : dead)
      :: state == left -> knows[p] = left
      :: else
      fi;
      if
      :: state == failed -> assert(peers[p].record == 2); goto end
      :: else
      fi;
      p++
    :: p < PEERS && knows[p] != alive -> p++
    :: p == PEERS -> break
    od;
#ifdef BUG_CLEAR_LATE
    alarm = false;
#endif
  od;
end: skip
}

init {
  atomic { peers[0].state = alive; peers[1].state = alive; run peer(0); run peer(1); run told() }
}
