package rdma

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdmad/nfsrdmad/transport/rdma/wire"
)

// versionStats counts by version of RPC-over-RDMA. What version 1 did is the rest of what Stats counts for
// all versions, so that its messages need no counters of their own.
type versionStats struct {
	// open and accepted are the numbers of a server's connections that have a version, now and since the
	// start: [0] for version 1, [1] for version 2.
	open, accepted [2]atomic.Int64
	// The messages of version 2: parts that are not the last, whole calls and replies, and errors.
	partsReceived, partsSent, calls, replies, errors atomic.Int64
	// past are all messages of connections of version 2 that have ended, and live the other connections.
	mu   sync.Mutex
	past messageCounts
	live map[*version2]struct{}
	// mismatches counts the errors of a connection of version 1 that refuse a message of version 2.
	mismatches atomic.Int64
}

// messageCounts are numbers of messages.
type messageCounts struct{ received, sent int64 }

// join counts the messages of a new connection of version 2 from now on.
func (s *versionStats) join(v *version2) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = make(map[*version2]struct{})
	}
	s.live[v] = struct{}{}
}

// leave forgets a connection, and keeps the numbers of its messages. It may be called twice.
func (s *versionStats) leave(v *version2) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.live[v]; ok {
		delete(s.live, v)
		s.past.add(v)
	}
}

// all returns the numbers of all messages of version 2 so far.
func (s *versionStats) all() messageCounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.past
	for v := range s.live {
		sum.add(v)
	}
	return sum
}

func (c *messageCounts) add(v *version2) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.received += v.messages.received
	c.sent += v.messages.sent
}

// VersionCounts are the counters for one version of RPC-over-RDMA. All except Connections only grow.
type VersionCounts struct {
	// Connections and Accepted are the numbers of a server's connections that have the version, now and since
	// the start. If the server speaks both versions, a connection has none before its client has sent a
	// message.
	Connections, Accepted int64
	// Received and Sent count messages: in version 1 calls and replies of the responder, and RDMA_ERRORs that
	// were sent; in version 2 all messages, of which PartsReceived and PartsSent were parts of a longer
	// message, without the last part.
	Received, Sent, PartsReceived, PartsSent int64
	// Errors counts the RDMA_ERRORs and RDMA2_ERRORs that were sent.
	Errors int64
}

// Version returns the counters for version 1 or 2 of RPC-over-RDMA.
func (s *Stats) Version(version int) VersionCounts {
	v := &s.versions
	c := VersionCounts{Connections: v.open[version-1].Load(), Accepted: v.accepted[version-1].Load()}
	if version == wire.Version2 {
		all := v.all()
		c.Received, c.Sent, c.Errors = all.received, all.sent, v.errors.Load()
		c.PartsReceived, c.PartsSent = v.partsReceived.Load(), v.partsSent.Load()
		return c
	}
	// Those of version 2 are read first: each of them is counted after the one for all versions.
	calls, replies := v.calls.Load(), v.replies.Load()
	c.Errors = s.ErrVers.Load() + s.ErrChunk.Load() + v.mismatches.Load()
	c.Received, c.Sent = s.Calls.Load()-calls, s.Replies.Load()-replies+c.Errors
	return c
}

// speaks notes the version of a server's connection.
func (k *connection) speaks(version int) {
	k.version.Store(int32(version))
	k.stats.versions.open[version-1].Add(1)
	k.stats.versions.accepted[version-1].Add(1)
	if k.chosen != nil {
		k.chosen(k.device.Peer(), version)
	}
}

// speaksNoMore notes that a connection has ended. It may have no version.
func (k *connection) speaksNoMore() {
	if version := k.version.Load(); version != 0 {
		k.stats.versions.open[version-1].Add(-1)
	}
}

// countCall counts a call that the responder begins, and countReply a reply that it sends.
func (k *connection) countCall() {
	k.stats.Calls.Add(1)
	if k.version.Load() == wire.Version2 {
		k.stats.versions.calls.Add(1)
	}
}

func (k *connection) countReply() {
	k.stats.Replies.Add(1)
	if k.version.Load() == wire.Version2 {
		k.stats.versions.replies.Add(1)
	}
}
