package rpc

import (
	"fmt"
	"unsafe"
)

// ReplyLife is the time for which the cache stores a reply.
const ReplyLife = replyLife

// CheckReplies returns an error if the data of the duplicate-request cache are inconsistent.
func (s *Server) CheckReplies() error {
	rc := s.replies
	rc.mu.Lock()
	defer rc.mu.Unlock()
	owners, costs := make(map[*replyOwner]int), make(map[*replyOwner]int64)
	entries, bytes, held := 0, int64(0), int64(0)
	for k, e := range rc.entries {
		for ; e != nil; e = e.twin {
			if entries++; e.key != k {
				return fmt.Errorf("an entry of %v lies under %v", e.key, k)
			}
			if e.done {
				held += entryCost + int64(cap(e.kept.body)+cap(e.kept.marks)*int(unsafe.Sizeof(keptMark{})))
				if owners[e.owner]++; owners[e.owner] == 1 {
					costs[e.owner] += ownerCost
				}
				costs[e.owner] += e.cost()
			}
		}
	}
	for o, n := range owners {
		last := (*reply)(nil)
		for e := o.replies.First; e != nil; last, e = e, e.Next {
			if n--; !e.done || e.Prev != last || e.owner != o || last != nil && e.at.Before(last.at) {
				return fmt.Errorf("the replies of connection %d are not a list by time", o.id)
			}
		}
		if n != 0 || o.replies.Len > o.window+most {
			return fmt.Errorf("connection %d counts %d replies, which is %d too few", o.id, o.replies.Len, n)
		}
		if bytes += costs[o]; o.place.Held() != costs[o] || o.place.Surplus() != o.surplus() {
			return fmt.Errorf("connection %d has %d bytes and a surplus of %d, and counts %d and %d",
				o.id, costs[o], o.surplus(), o.place.Held(), o.place.Surplus())
		}
	}
	if held > bytes {
		return fmt.Errorf("the replies take %d bytes, and are counted as %d", held, bytes)
	}
	listed := 0
	for o := rc.owners.First; o != nil; o = o.Next {
		if listed++; owners[o] == 0 {
			return fmt.Errorf("connection %d, without replies, is on the list", o.id)
		}
	}
	if listed != len(owners) || entries != rc.count.Entries || bytes != rc.room.Held() {
		return fmt.Errorf("%d entries, %d bytes, %d connections, and counted %d, %d and %d",
			entries, bytes, len(owners), rc.count.Entries, rc.room.Held(), listed)
	}
	return nil
}

// PutOffs returns the number of calls that are kept because they were put off.
func (s *Server) PutOffs() int {
	s.putOff.mu.Lock()
	defer s.putOff.mu.Unlock()
	return len(s.putOff.all)
}
