package nfs4

import wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"

// A Limiter is a Session that limits the size of replies further than the transport does.
type Limiter interface {
	// Left returns the number of bytes of words and payload that the reply may still grow by,
	// and the status to answer if that is not enough.
	Left(k *Compound) (n int, or Status)
}

// Tail returns the number of bytes to keep free after a result. If another operation follows,
// its result needs at least a number and a status.
func (k *Compound) Tail() int {
	if k.Index+1 < k.Count {
		return 8
	}
	return 0
}

// exceeded checks that the reply written so far can be carried back. If not, it returns the
// status that replaces the result of the last operation. An operation that changes something
// has already been checked by room.
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

// room checks that a result of n bytes, after its status, can be carried back. It returns
// NFS4_OK, or the status to answer instead.
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

// Room returns by how many bytes the reply may still grow, without payloads.
func (k *Compound) Room() int {
	n := k.Call.WordsRoom(k.W)
	if l, ok := k.Session.(Limiter); ok {
		left, _ := l.Left(k)
		n = min(n, left)
	}
	return max(n-k.Tail(), 0)
}

// tooBig returns the status for a reply that cannot be carried back: the session's status if
// its limit is narrower than the transport's.
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

// PayloadRoom returns the maximum length, in bytes, of the next result that may be placed
// directly, if rest bytes of words accompany it. The limit is its Write chunk, or the room
// left in the reply.
func (k *Compound) PayloadRoom(rest int) int {
	rest += k.Tail()
	n := k.Call.ResultRoom(k.W, rest)
	if l, ok := k.Session.(Limiter); ok {
		left, _ := l.Left(k)
		n = min(n, max(left-rest, 0))
	}
	return n
}
