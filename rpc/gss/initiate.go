package gss

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
)

// A clientContext is the client's data of one context.
type clientContext struct {
	ctx    Context
	handle []byte
	window int
	seq    atomic.Uint32 // the last sequence number used
}

// lastSeq is the sequence number at which a client makes a new context. It is 65,536 below maxSeq,
// because calls that are sent again under the old context need numbers as well.
const lastSeq = maxSeq - 1<<16

// usable reports whether new calls can be sent under x: it has not expired, and its sequence
// numbers are below lastSeq.
func (x *clientContext) usable(now time.Time) bool {
	return now.Before(x.ctx.Expiry()) && x.seq.Load() < lastSeq
}

// maxLegs is the largest number of tokens that a client sends to make one context.
const maxLegs = 16

// An initiation is the client's state while it makes a context with a server.
type initiation struct {
	k                rpc.Caller
	program, version uint32
	// answer is the server's last answer, and verf its verifier; their slices are copies. Before the
	// first answer, answer.handle is nil.
	answer initResult
	verf   rpc.AuthBytes
}

// initiate makes a context by calls of procedure NULL (RFC 2203 §5.2.2).
func (i *initiation) initiate(ctx context.Context, by Initiator) (*clientContext, error) {
	var token []byte
	for sent := range maxLegs + 1 {
		out, c, err := by.Step(token, time.Now())
		if err != nil {
			return nil, err
		}
		if i.answer.handle != nil && i.answer.major == Complete {
			return i.established(c, out)
		}
		if out == nil {
			return nil, errors.New("the server expects another token, but the mechanism has finished")
		}
		if sent == maxLegs {
			break
		}
		if err := i.send(ctx, out); err != nil {
			return nil, err
		}
		token = i.answer.token
		if i.answer.major == Complete && len(token) == 0 && c != nil {
			return i.established(c, nil)
		}
	}
	return nil, fmt.Errorf("not established after %d tokens", maxLegs)
}

// send sends one token in a call, and stores the answer.
func (i *initiation) send(ctx context.Context, token []byte) error {
	cred := credential{proc: procInit, service: rpc.GSSNone, handle: i.answer.handle}
	if i.answer.handle != nil {
		cred.proc = procContinueInit
	}
	w := xdr.NewWriter(make([]byte, 0, rpc.MaxAuthBytes))
	cred.putBody(w)
	x := rpc.Exchange{
		Program: i.program, Version: i.version, Procedure: nullProcedure,
		Cred:    rpc.AuthBytes{Flavor: rpc.AuthGSS, Body: w.Bytes()},
		Args:    func(w *xdr.Writer) { w.Opaque(token) },
		MaxArgs: 4 + padded(len(token)),
		// Allow four times maxReplyToken, because servers other than this package's may send longer
		// tokens.
		MaxResults: 4 + maxHandle + 3*4 + 4 + 4*maxReplyToken,
	}
	return rpc.Do(ctx, i.k, &x, func(d *xdr.Decoder) error {
		var r initResult
		if err := r.read(d); err != nil {
			return err
		}
		if r.major != Complete && r.major != ContinueNeeded {
			return fmt.Errorf("%w: %w", ErrRefused, &Error{Major: r.major, Minor: r.minor, Text: "its log says why"})
		}
		if len(r.handle) == 0 || r.window == 0 {
			return errors.New("the server's answer has no handle or no window")
		}
		r.handle, r.token = bytes.Clone(r.handle), bytes.Clone(r.token)
		i.answer, i.verf = r, rpc.AuthBytes{Flavor: x.Verf.Flavor, Body: bytes.Clone(x.Verf.Body)}
		return nil
	})
}

// established returns the finished context. It fails if the mechanism has not finished: c is nil,
// or rest, a further token for the server, is not empty. It checks the server's MIC of the window
// size in the last answer (RFC 2203 §5.2.3.1).
func (i *initiation) established(c Context, rest []byte) (*clientContext, error) {
	if c == nil || len(rest) > 0 {
		return nil, errors.New("the server has enough, and the mechanism has not")
	}
	var window [4]byte
	binary.BigEndian.PutUint32(window[:], i.answer.window)
	if i.verf.Flavor != rpc.AuthGSS {
		return nil, errors.New("the server did not sign its answer")
	}
	if err := c.VerifyMIC(i.verf.Body, window[:]); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return &clientContext{ctx: c, handle: i.answer.handle, window: int(min(i.answer.window, maxUnderWay))}, nil
}
