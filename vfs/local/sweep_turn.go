package local

import "github.com/nfsrdmad/nfsrdmad/internal/queue"

// sweepTurns holds the nodes of a shard by the round in which the sweeper looks at them next, so that
// a round visits only those whose turn it is, however many files are open. The mutex of the shard
// guards it.
type sweepTurns [turnsAhead]queue.List[node, *node]

// turnsAhead is more than the largest number of rounds between two turns of a node (forgetAfter).
const turnsAhead = 64

// A sweepTurn is a node's place in the sweepTurns of its shard.
type sweepTurn struct {
	waits bool   // true if the node is in a list; otherwise the sweeper looks at it, or it is new or dropped
	soon  bool   // if waits is false, the next turn comes soon
	round uint32 // if waits is true, the round of the turn
}

// add gives n a turn in a round, at most forgetAfter rounds from now.
func (t *sweepTurns) add(n *node, round uint32) {
	n.turn = sweepTurn{waits: true, round: round}
	t[round%turnsAhead].Add(n)
}

// remove takes n out, if it is in.
func (t *sweepTurns) remove(n *node) {
	if n.turn.waits {
		t[n.turn.round%turnsAhead].Remove(n)
		n.turn.waits = false
	}
}

// hasten is called when a descriptor of n was opened. It gives n a turn in the first round in which this
// descriptor may be idle.
func (c *nodeCache) hasten(n *node) {
	at := c.round.Load() + closeAfter
	s := c.shard(&n.handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !n.turn.waits {
		n.turn.soon = true
	} else if int32(n.turn.round-at) > 0 {
		s.turns.remove(n)
		s.turns.add(n, at)
	}
}

// sweep calls look with each node whose turn came in the rounds after the one in last, up to now. look
// returns the number of rounds until the node's next turn, or 0 if the node shall leave the cache if
// no caller uses it.
func (c *nodeCache) sweep(last, now uint32, look func(*node) (rounds uint32)) {
	var batch, gone []*node
	var next []uint32
	for i := range c.shards {
		s := &c.shards[i]
		batch, next, gone = batch[:0], next[:0], gone[:0]
		s.mu.Lock()
		for round := last + 1; round != now+1 && round != last+1+turnsAhead; round++ {
			for turns := &s.turns[round%turnsAhead]; turns.First != nil; {
				n := turns.First
				s.turns.remove(n)
				n.refs.Add(1)
				batch = append(batch, n)
			}
		}
		s.mu.Unlock()
		for _, n := range batch {
			next = append(next, look(n))
		}
		s.mu.Lock()
		for j, n := range batch {
			if c.againLocked(s, n, now, next[j]) {
				gone, batch[j] = append(gone, n), nil
			}
		}
		s.mu.Unlock()
		for _, n := range batch {
			if n != nil {
				n.put()
			}
		}
		for _, n := range gone {
			n.close()
		}
	}
}

// againLocked gives n its next turn, after a call of look that returned rounds. It returns true if n
// has left the cache, with the reference of sweep; then the caller closes n.
func (c *nodeCache) againLocked(s *nodeShard, n *node, now, rounds uint32) (gone bool) {
	if s.m[n.handle] != n {
		return false // it was dropped meanwhile
	}
	if rounds == 0 {
		if n.refs.Add(-1); c.removeLocked(s, n) {
			return true
		}
		n.refs.Add(1)
		rounds = lookEveryRound
	}
	if n.turn.soon {
		rounds = min(rounds, closeAfter)
	}
	s.turns.add(n, now+rounds)
	return false
}
