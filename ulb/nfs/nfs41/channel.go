package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The least that a channel's sizes may be, in bytes: a call with SEQUENCE alone under
// AUTH_SYS, and its reply.
const (
	leastRequest  = 128
	leastResponse = rpc.ReplyHeader + 12 + 8 + wire.Sequence4ResOKMaxSize
	// leastBackRequest is a CB_RECALL under AUTH_SYS, and leastBackResponse its reply.
	leastBackRequest  = 32 + 96 + 12 + 48 + 4 + wire.CBRecall4ArgsMaxSize
	leastBackResponse = rpc.ReplyHeader + 12 + 8 + 36 + 8
)

// The most that they may be.
const (
	mostRequest  = nfs.MaxCompound + rpc.MaxCallHeader
	mostResponse = nfs.MaxCompound + rpc.ReplyHeader + rpc.MaxAuthBytes
)

// A channel is one direction of a session, with the limits that both sides keep to
// (RFC 8881 §18.36.3).
type channel struct{ wire.ChannelAttrs4 }

// negotiate sets the limits of a fore channel from what the client asks for. It is false
// where nothing could ever be said over it.
func (c *channel) negotiate(a *wire.ChannelAttrs4, slots int) bool {
	if a.Maxrequestsize < leastRequest || a.Maxresponsesize < leastResponse || a.Maxoperations == 0 || a.Maxrequests == 0 {
		return false
	}
	c.ChannelAttrs4 = wire.ChannelAttrs4{
		Maxrequestsize:        min(a.Maxrequestsize, mostRequest),
		Maxresponsesize:       min(a.Maxresponsesize, mostResponse),
		MaxresponsesizeCached: min(a.MaxresponsesizeCached, a.Maxresponsesize, maxCached),
		Maxoperations:         min(a.Maxoperations, nfs.MaxOperations),
		Maxrequests:           min(a.Maxrequests, uint32(slots)),
		RDMAIrd:               a.RDMAIrd,
	}
	return true
}

// accept takes the limits of a backchannel, which are the client's to set. It is false
// where no call of ours would ever fit.
func (c *channel) accept(a *wire.ChannelAttrs4) bool {
	c.ChannelAttrs4 = *a
	c.Headerpadsize = 0
	return a.Maxrequestsize >= leastBackRequest && a.Maxresponsesize >= leastBackResponse && a.Maxoperations >= 2 && a.Maxrequests > 0
}

// maxCached is the largest reply that is kept, in bytes.
func (c *channel) maxCached() int { return int(c.MaxresponsesizeCached) }
