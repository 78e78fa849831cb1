/* Long messages both ways whose packets are answered in their place (Messenger::stream_packet and answer,
 * src/engine/long_messages.cpp): who may send a packet that nothing has brought. Each rank gets its peer ready for
 * MESSAGES messages of PACKETS packets when it likes; what lies in the buffers is in swap.pml.
 *
 * Shown: the two never wait for each other for ever, whenever there is no room for an answer, and all is sent and read.
 *
 * -DBUG_NOT_BEGUN, -DBUG_NEVER_ALONE, -DBUG_NO_ANEW must each be found. */
#define MESSAGES 2
#define PACKETS 2
#define ALL (MESSAGES * PACKETS)
#define ROOM 3

chan way[2] = [ROOM] of { bool }; /* to each rank; true: for a message's data, else a packet of it */
byte told[2], sent[2];            /* by rank: packets that it lets its peer send, and has sent */

#define PEER (1 - _pid)

active [2] proctype rank() {
  byte may_send, got;
  bool may_begin, is_ready;
  do
  :: told[_pid] < ALL && nfull(way[PEER]) -> atomic { told[_pid] = told[_pid] + PACKETS; way[PEER]!true }
  :: sent[_pid] < may_send && (told[_pid] > got -> may_begin :
#ifdef BUG_NEVER_ALONE
    may_begin
#else
    true
#endif
    ) && nfull(way[PEER]) -> /* it begins, or has the way for itself */
    atomic { sent[_pid]++; may_begin = false; way[PEER]!false }
  :: atomic { way[_pid]?is_ready ->
      if
      :: is_ready ->
#ifndef BUG_NOT_BEGUN
        if
        :: sent[_pid] == may_send -> may_begin = true
        :: else
        fi;
#endif
        may_send = may_send + PACKETS
      :: !is_ready ->
        got++;
        assert(got <= told[_pid]);
        if
        :: sent[_pid] < may_send && nfull(way[PEER]) -> sent[_pid]++; way[PEER]!false /* an answer */
        :: true ->
#ifndef BUG_NO_ANEW
          may_begin = true
#else
          skip
#endif
        fi
      fi;
      is_ready = false }
  :: sent[_pid] == ALL && got == ALL -> break
  od
}
