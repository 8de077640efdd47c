package nfs41

import (
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The minimum sizes of a channel, in bytes: a call with only SEQUENCE under AUTH_SYS, and its
// reply.
const (
	leastRequest  = 128
	leastResponse = rpc.ReplyHeader + 12 + 8 + wire.Sequence4ResOKMaxSize
	// leastBackRequest is the size of a CB_RECALL under AUTH_SYS, leastBackResponse that of
	// its reply.
	leastBackRequest  = 32 + 96 + 12 + 48 + 4 + wire.CBRecall4ArgsMaxSize
	leastBackResponse = rpc.ReplyHeader + 12 + 8 + 36 + 8
)

// The maximum sizes of a channel, in bytes.
const (
	mostRequest  = nfs.MaxCompound + rpc.MaxCallHeader
	mostResponse = nfs.MaxCompound + rpc.ReplyHeader + rpc.MaxAuthBytes
)

// A channel is one direction of a session with the limits that both sides obey (RFC 8881
// §18.36.3).
type channel struct{ wire.ChannelAttrs4 }

// negotiate sets the limits of a fore channel from the client's request. It returns false if
// the channel would be too small for any request.
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

// accept takes the limits of a backchannel as the client sets them. It returns false if none of the
// server's calls could fit.
func (c *channel) accept(a *wire.ChannelAttrs4) bool {
	c.ChannelAttrs4 = *a
	c.Headerpadsize = 0
	return a.Maxrequestsize >= leastBackRequest && a.Maxresponsesize >= leastBackResponse && a.Maxoperations >= 2 && a.Maxrequests > 0
}

// maxCached returns the size of the largest reply that a slot keeps, in bytes.
func (c *channel) maxCached() int { return int(c.MaxresponsesizeCached) }
