package nfs4

import (
	"math"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A Limiter is a Session that limits the size of replies below the transport's limit.
type Limiter interface {
	// Left returns the number of bytes by which the reply, with its directly placed data,
	// may still grow, and the status to answer if that is not enough.
	Left(k *Compound) (n int, or Status)
}

// sessionLeft returns Limiter.Left, or the largest number if the session sets no limit.
func (k *Compound) sessionLeft() (n int, or Status) {
	if l, ok := k.Session.(Limiter); ok {
		return l.Left(k)
	}
	return math.MaxInt, wire.NFS4ErrRepTooBig
}

// Tail returns the number of bytes to keep free after a result. If another operation follows,
// its result needs at least a number and a status.
func (k *Compound) Tail() int {
	if k.Index+1 < k.Count {
		return 8
	}
	return 0
}

// exceeded checks that the reply written so far fits into the limits of the transport and of the
// session. If not, it returns the status that replaces the result of the last operation. For an
// operation with Operation.Once, room has already checked this before the operation ran.
func (k *Compound) exceeded() Status {
	if k.W.Overflow() || k.W.Available() < k.Tail() {
		return k.tooBig()
	}
	if left, or := k.sessionLeft(); left < k.Tail() {
		return or
	}
	return wire.NFS4OK
}

// room checks that a result of n bytes, without its status, fits into the reply. It returns
// NFS4_OK, or the status to answer instead of running the operation.
func (k *Compound) room(n int) Status {
	n += k.Tail()
	if left, or := k.sessionLeft(); left < n {
		return or
	}
	if k.Call.WordsRoom(k.W) < n {
		return k.tooBig()
	}
	return wire.NFS4OK
}

// Room returns the number of bytes by which the reply may still grow, without directly
// placed data.
func (k *Compound) Room() int {
	left, _ := k.sessionLeft()
	return max(min(k.Call.WordsRoom(k.W), left)-k.Tail(), 0)
}

// tooBig returns the status for a reply that does not fit. If the session's limit is lower
// than the transport's, it is the session's status.
func (k *Compound) tooBig() Status {
	if k.Minor == 0 {
		return wire.NFS4ErrResource
	}
	if left, or := k.sessionLeft(); left <= k.Call.WordsRoom(k.W) {
		return or
	}
	return wire.NFS4ErrRepTooBig
}

// PayloadRoom returns the maximum length, in bytes, of the next result that may be placed directly.
// rest is the number of bytes of XDR that go with it in the reply. The limit is the size of the
// result's Write chunk or, if the result has none, the room left in the reply.
func (k *Compound) PayloadRoom(rest int) int {
	rest += k.Tail()
	left, _ := k.sessionLeft()
	return min(k.Call.ResultRoom(k.W, rest), max(left-rest, 0))
}
