package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Kept is what a call came to, kept to be answered with again: the results with
// the places of their payloads, before verifier, protection and chunks, which
// belong to each request. It serves the duplicate-request cache, and programs that
// keep replies themselves.
type Kept struct {
	auth  AuthStat
	stat  AcceptStat
	low   uint32 // of PROG_MISMATCH
	high  uint32
	body  []byte // the words, then the contents of the payloads
	words int    // how much of body is words
	marks []keptMark
}

// keptMark is a payload's place: the position among the words, and the length.
type keptMark struct {
	at, length int
	eligible   bool
}

// Size is how many bytes k holds.
func (k *Kept) Size() int { return len(k.body) }

// Keep copies what out and w say of the call's end; w stands behind the results.
// Memory that k has is used again.
func (k *Kept) Keep(c *Call, w *xdr.Writer, out Outcome) {
	from := c.state.results
	k.auth, k.stat, k.low, k.high = out.Auth, out.Stat, out.Low, out.High
	k.body, k.marks, k.words = k.body[:0], k.marks[:0], 0
	if out.Auth != AuthOK || out.Stat != Success {
		return
	}
	k.body = append(k.body, w.Bytes()[from:]...)
	k.words = len(k.body)
	for _, p := range w.Payloads() {
		k.body = append(k.body, p.Data...)
		k.marks = append(k.marks, keptMark{p.Position - from, len(p.Data), p.Eligible})
	}
}

// Put writes the results to w as they were written first, and says how the call
// ended. The payloads refer to k, which must not be used for another call while
// one of them may be read.
func (k *Kept) Put(w *xdr.Writer) Outcome {
	at, content := 0, k.body[k.words:]
	for _, m := range k.marks {
		w.FixedOpaque(k.body[at : m.at-4]) // the count is Payload's to write
		w.Payload(content[:m.length:m.length], m.eligible, nil)
		at, content = m.at, content[m.length:]
	}
	w.FixedOpaque(k.body[at:k.words])
	return k.outcome()
}

// outcome is how the call ended.
func (k *Kept) outcome() Outcome {
	return Outcome{Auth: k.auth, Stat: k.stat, Low: k.low, High: k.high}
}

// putCopy is Put for a reply that is changed on its way out, so that k is not.
func (k *Kept) putCopy(w *xdr.Writer) Outcome {
	at, content := 0, k.body[k.words:]
	for _, m := range k.marks {
		w.FixedOpaque(k.body[at:m.at])
		w.FixedOpaque(content[:m.length])
		at, content = m.at, content[m.length:]
	}
	w.FixedOpaque(k.body[at:k.words])
	return k.outcome()
}
