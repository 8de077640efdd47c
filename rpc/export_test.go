package rpc

import "fmt"

// ReplyLife is the time for which a reply is remembered.
const ReplyLife = replyLife

// CheckReplies returns the first inconsistency of the duplicate-request cache.
func (s *Server) CheckReplies() error {
	rc := s.replies
	rc.mu.Lock()
	defer rc.mu.Unlock()
	owners, clients := make(map[*replyOwner]int), make(map[*replyClient]int64)
	entries, done, bytes := 0, 0, int64(0)
	for k, e := range rc.entries {
		for ; e != nil; e = e.twin {
			entries++
			if e.key != k || e.done != (e.in != nil) {
				return fmt.Errorf("an entry of %v, done: %v, lies under %v, and takes room: %v", e.key, e.done, k, e.in != nil)
			}
			if e.done {
				if done++; owners[e.owner] == 0 {
					clients[e.owner.client] += ownerCost
				}
				owners[e.owner]++
				clients[e.owner.client] += e.cost()
			}
		}
	}
	for o, n := range owners {
		last := (*reply)(nil)
		for e := o.safe.First; e != nil; last, e = e, e.Next {
			if done--; e.in != &o.safe || e.Prev != last || e.owner != o || last != nil && e.at.Before(last.at) {
				return fmt.Errorf("the safe replies of connection %d are not a list by time", o.id)
			}
		}
		if n != o.replies || o.safe.Len > o.window {
			return fmt.Errorf("connection %d has %d replies, and counts %d, %d of them safe", o.id, n, o.replies, o.safe.Len)
		}
	}
	for cl, n := range clients {
		bytes += n
		replies, surplus := 0, 0
		for o := cl.owners.First; o != nil; o = o.Next {
			replies += o.replies - o.safe.Len
		}
		for e := cl.surplus.First; e != nil; e = e.Next {
			if surplus++; e.in != &cl.surplus || e.owner.client != cl {
				return fmt.Errorf("a reply of connection %d is not where it should be", e.owner.id)
			}
		}
		done -= surplus
		if rc.clients[cl.addr] != cl || cl.bytes != n || cl.ranked != cl.rank() || replies != surplus || surplus > most {
			return fmt.Errorf("client %v has %d bytes, %d replies beyond the safe ones, and counts %d and %d, in rank %d", cl.addr, n, surplus, cl.bytes, replies, cl.ranked)
		}
	}
	listed := 0
	for r := range rc.ranks {
		listed += rc.ranks[r].Len
	}
	if done != 0 || listed != len(clients) || len(rc.clients) != len(clients) || entries != rc.count.Entries || bytes != rc.bytes {
		return fmt.Errorf("%d entries, %d bytes, %d clients, and counted %d, %d and %d; %d replies are on no list",
			entries, bytes, len(clients), rc.count.Entries, rc.bytes, listed, done)
	}
	return nil
}
