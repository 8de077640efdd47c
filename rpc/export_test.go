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
	owners, clients := make(map[*replyOwner]int), make(map[*replyClient]int64)
	entries, bytes, held := 0, int64(0), int64(0)
	for k, e := range rc.entries {
		for ; e != nil; e = e.twin {
			if entries++; e.key != k {
				return fmt.Errorf("an entry of %v lies under %v", e.key, k)
			}
			if e.done {
				held += entryCost + int64(cap(e.kept.body)+cap(e.kept.marks)*int(unsafe.Sizeof(keptMark{})))
				if owners[e.owner] == 0 {
					clients[e.owner.client] += ownerCost
				}
				owners[e.owner]++
				clients[e.owner.client] += e.cost()
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
	}
	for cl, n := range clients {
		bytes += n
		for surplus := range cl.owners {
			for o := cl.owners[surplus].First; o != nil; o = o.Next {
				if o.client != cl || (o.replies.Len > o.window) != (surplus == 1) || owners[o] == 0 {
					return fmt.Errorf("connection %d, with %d replies, is not where it should be", o.id, o.replies.Len)
				}
				delete(owners, o)
			}
		}
		if rc.clients[cl.addr] != cl || cl.bytes != n || cl.ranked != cl.rank() {
			return fmt.Errorf("client %v has %d bytes, and counts %d, in rank %d", cl.addr, n, cl.bytes, cl.ranked)
		}
	}
	if held > bytes {
		return fmt.Errorf("the replies take %d bytes, and are counted as %d", held, bytes)
	}
	listed := 0
	for r := range rc.ranks {
		listed += rc.ranks[r].Len
	}
	if len(owners) != 0 || listed != len(clients) || len(rc.clients) != len(clients) || entries != rc.count.Entries || bytes != rc.count.Bytes {
		return fmt.Errorf("%d entries, %d bytes, %d clients, and counted %d, %d and %d; %d connections are on no list",
			entries, bytes, len(clients), rc.count.Entries, rc.count.Bytes, listed, len(owners))
	}
	return nil
}
