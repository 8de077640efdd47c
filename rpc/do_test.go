package rpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A lateCaller ends a cancelled call only when end is closed, like a transport that first has to take
// memory back from its peer.
type lateCaller struct {
	rpc.Caller
	end chan struct{}
}

func (*lateCaller) Start(*rpc.Exchange) {}

func (l *lateCaller) Cancel(x *rpc.Exchange, err error) {
	go func() {
		<-l.end
		x.Err = err
		x.Done(x)
	}()
}

// Do returns when the call has ended, not when its context ends: until then the transport uses the
// caller's memory.
func TestDoWaitsForTheEndOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, returned := &lateCaller{end: make(chan struct{})}, make(chan error, 1)
		go func() { returned <- rpc.Do(ctx, l, new(rpc.Exchange), nil) }()
		cancel()
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("Do has returned, and the call has not ended")
		}
		close(l.end)
		if err := <-returned; err != context.Canceled {
			t.Error(err)
		}
	})
}

// A reply with a number that its place does not know is no reply (RFC 5531 §9): the error is ErrBadReply and
// not a status.
func TestRepliesWithUnknownNumbers(t *testing.T) {
	for what, c := range map[string]struct {
		words []uint32 // after the XID
		bad   bool
	}{
		"success":                       {[]uint32{1, 0, 0, 0, 0}, false},
		"SYSTEM_ERR":                    {[]uint32{1, 0, 0, 0, 5}, false},
		"accept_stat 6":                 {[]uint32{1, 0, 0, 0, 6}, true},
		"accept_stat 2^32-1":            {[]uint32{1, 0, 0, 0, 1<<32 - 1}, true},
		"PROG_MISMATCH":                 {[]uint32{1, 0, 0, 0, 2, 3, 4}, false},
		"PROG_MISMATCH without numbers": {[]uint32{1, 0, 0, 0, 2, 3}, true},
		"AUTH_ERROR":                    {[]uint32{1, 1, 1, 1}, false},
		"AUTH_ERROR with AUTH_OK":       {[]uint32{1, 1, 1, 0}, true},
		"RPC_MISMATCH":                  {[]uint32{1, 1, 0, 2, 2}, false},
		"reject_stat 2":                 {[]uint32{1, 1, 2, 0, 0}, true},
		"reply_stat 2":                  {[]uint32{1, 2, 0, 0, 0}, true},
		"a call":                        {[]uint32{0, 0, 0, 0, 0}, true},
		"msg_type 2":                    {[]uint32{2, 0, 0, 0, 0}, true},
		"a verifier that is too long":   {[]uint32{1, 0, 0, 401}, true},
		"nothing":                       {nil, true},
	} {
		message := binary.BigEndian.AppendUint32(nil, 7)
		for _, w := range c.words {
			message = binary.BigEndian.AppendUint32(message, w)
		}
		var d xdr.Decoder
		d.Reset(message, 0, nil)
		xid, _, err := rpc.ReadReply(&d)
		if xid != 7 || errors.Is(err, rpc.ErrBadReply) != c.bad {
			t.Errorf("%s: XID %d, %v", what, xid, err)
		}
	}
}
