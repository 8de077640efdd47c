package rdma

import (
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
)

// A responder serves the calls of one connection.
type responder struct {
	k       *connection
	calls   Calls
	conn    *rpc.Conn
	share   *mem.Share
	credits uint32
	// maxCall and maxReply: see Config.
	maxCall, maxReply int
	// noChunks: a peer that has a Requester of its own may not move anything by
	// RDMA here (RFC 8167 §5.3).
	noChunks bool
	failed   *failedXIDs
	peer     netip.Addr
	reads    readQueue
}

// arrived begins the call whose header was decoded.
func (s *responder) arrived(h *Header, r *recv) {
	if !s.k.enter() {
		s.k.discard(r)
		return
	}
	s.k.stats.Calls.Add(1)
	s.k.stats.BytesInlineIn.Add(int64(len(r.Bytes)))
	c := newCall(s, r)
	c.header = *h
	c.begin()
}

// reject answers a message that is not served with an RDMA_ERROR.
func (s *responder) reject(r *recv, p Prefix, code ErrorCode) {
	if !s.k.enter() {
		s.k.discard(r)
		return
	}
	c := newCall(s, r)
	c.header.Prefix = p
	c.sendError(code)
}

// closed: the connection is gone. Calls in progress run on; their replies come
// back from the device as flushed.
func (s *responder) closed() {
	s.conn.Close()
	if s.share != nil {
		s.share.Close()
	}
}
