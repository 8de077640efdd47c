package rpc

import "fmt"

// ReplyLife is how long a reply is remembered.
const ReplyLife = replyLife

// CheckReplies says where the duplicate-request cache does not add up.
func (s *Server) CheckReplies() error {
	rc := s.replies
	rc.mu.Lock()
	defer rc.mu.Unlock()
	owners, clients := make(map[*replyOwner][2]int), make(map[*replyClient]int64)
	entries, bytes := 0, int64(0)
	for k, e := range rc.entries {
		for ; e != nil; e = e.twin {
			n := owners[e.owner]
			n[0]++
			entries++
			bytes += entryCost
			if e.done {
				n[1]++
				bytes += int64(e.kept.Size())
				clients[e.owner.client] += e.cost()
			}
			owners[e.owner] = n
			if e.key != k {
				return fmt.Errorf("an entry of %v lies under %v", e.key, k)
			}
		}
	}
	surplus, listed := make(map[*replyClient]int), 0
	for o, n := range owners {
		if n != [2]int{o.entries, o.done} {
			return fmt.Errorf("connection %d has %d entries, %d of them done, and counts %d and %d", o.id, n[0], n[1], o.entries, o.done)
		}
		bytes += ownerCost
		surplus[o.client] += max(0, o.done-o.window)
		last := (*reply)(nil)
		for e := o.oldest; e != nil; last, e = e, e.next {
			if listed++; e.prev != last || e.owner != o || !e.done || last != nil && e.at.Before(last.at) {
				return fmt.Errorf("the replies of connection %d are not a list by time", o.id)
			}
		}
	}
	if len(rc.order) != len(rc.clients) {
		return fmt.Errorf("%d clients, %d of them in order", len(rc.clients), len(rc.order))
	}
	for i, cl := range rc.order {
		n := 0
		for r := range cl.owners {
			for o := cl.owners[r].first; o != nil; o = o.next {
				n += o.done
				if o.rank() != r {
					return fmt.Errorf("connection %d is in list %d", o.id, r)
				}
			}
		}
		listed -= n
		if cl.place != i || cl.surplus != surplus[cl] || cl.bytes != clients[cl] || i > 0 && rc.order.Less(i, (i-1)/2) {
			return fmt.Errorf("client %d: %+v, has %d bytes, %d beyond the safe ones", i, cl, clients[cl], surplus[cl])
		}
	}
	if listed != 0 || entries != rc.count.Entries || bytes != rc.bytes {
		return fmt.Errorf("%d entries, %d bytes, and counted %d and %d", entries, bytes, rc.count.Entries, rc.bytes)
	}
	return nil
}
