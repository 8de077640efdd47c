package nfs4

import (
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Limiter is a Session that bounds replies more narrowly than the transport does.
type Limiter interface {
	// Left says how many bytes of words and payload may still follow in the reply,
	// and what to answer where that is not enough.
	Left(k *Compound) (n int, or Status)
}

// Tail is what is kept free behind a result, in bytes: that of the next operation has a
// number and a status at least.
func (k *Compound) Tail() int {
	if k.Index+1 < k.Count {
		return 8
	}
	return 0
}

// exceeded says whether what has been written goes beyond what can be carried back:
// NFS4_OK, or what the operation that wrote it last is answered with instead. An operation
// that changes something was asked for its room before.
func (k *Compound) exceeded() Status {
	if k.W.Overflow() || k.W.Available() < k.Tail() {
		return k.tooBig()
	}
	if l, ok := k.Session.(Limiter); ok {
		if left, or := l.Left(k); left < k.Tail() {
			return or
		}
	}
	return wire.NFS4OK
}

// room says whether a result of n bytes behind its status can be carried back: NFS4_OK,
// or what to answer instead.
func (k *Compound) room(n int) Status {
	n += k.Tail()
	if l, ok := k.Session.(Limiter); ok {
		if left, or := l.Left(k); left < n {
			return or
		}
	}
	if k.Call.WordsRoom(k.W) < n {
		return k.tooBig()
	}
	return wire.NFS4OK
}

// Room is how many bytes of words may still follow in the reply.
func (k *Compound) Room() int {
	n := k.Call.WordsRoom(k.W)
	if l, ok := k.Session.(Limiter); ok {
		left, _ := l.Left(k)
		n = min(n, left)
	}
	return max(n-k.Tail(), 0)
}

// tooBig is what a reply that cannot be carried back is answered with: what the session
// says where that is narrower than the transport.
func (k *Compound) tooBig() Status {
	if k.Minor == 0 {
		return wire.NFS4ErrResource
	}
	if l, ok := k.Session.(Limiter); ok {
		if left, or := l.Left(k); left <= k.Call.WordsRoom(k.W) {
			return or
		}
	}
	return wire.NFS4ErrRepTooBig
}

// PayloadRoom is how long the next result may be that can be placed directly, where rest
// bytes of words go with it: what its Write chunk holds, or what is left of the reply.
func (k *Compound) PayloadRoom(rest int) int {
	rest += k.Tail()
	n := k.Call.ResultRoom(k.W, rest)
	if l, ok := k.Session.(Limiter); ok {
		left, _ := l.Left(k)
		n = min(n, max(left-rest, 0))
	}
	return n
}

// Memory hands out n bytes of the call's payload memory for a result, or nil where the
// call's plan did not ask for so much. The compound keeps the reference until Eligible
// passes it on, and gives it back where that does not happen before the operation ends.
func (k *Compound) Memory(n int) []byte {
	b, ref := k.Call.ResultMemory(n)
	if ref != nil {
		k.held = ref
	}
	return b
}

// Eligible makes data, which lies in what Memory handed out, a result that may be placed
// directly.
func (k *Compound) Eligible(data []byte) xdr.Eligible {
	e := xdr.Eligible{Data: data, Ref: k.held}
	k.held = nil
	return e
}
