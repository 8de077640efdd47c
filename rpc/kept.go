package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// Kept is a stored result of a call, for a client that repeats the call. It has the results and the
// positions of their payloads. It has no verifier, no protection and no chunks, because they differ
// for each request. The duplicate-request cache uses it, and so do programs with a reply cache of
// their own.
type Kept struct {
	auth  AuthStat
	stat  AcceptStat
	low   uint32 // versions of PROG_MISMATCH
	high  uint32
	body  []byte // the results without payloads, then the contents of the payloads
	words int    // the number of bytes of body before the payloads
	marks []keptMark
}

// keptMark describes a payload: its position in the results without payloads, and its length, both
// in bytes.
type keptMark struct {
	at, length int
	eligible   bool
}

// markCost is the size of a keptMark in memory, in bytes.
const markCost = 24

// Size returns how many bytes of memory k uses. If k was reused, that may be more than its result
// needs.
func (k *Kept) Size() int { return cap(k.body) + markCost*cap(k.marks) }

// Keep stores out, and the results that w has, in k. It reuses the memory of k.
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

// Put writes the results to w again, and returns the outcome. The payloads refer to memory of k, so
// the caller must not reuse k while a writer holds them.
func (k *Kept) Put(w *xdr.Writer) Outcome { return k.put(w, false) }

// put is Put. If copied is set, it copies the payloads, for a reply whose protection changes them.
func (k *Kept) put(w *xdr.Writer, copied bool) Outcome {
	at, content := 0, k.body[k.words:]
	for _, m := range k.marks {
		payload := content[:m.length:m.length]
		w.FixedOpaque(k.body[at : m.at-4]) // Opaque and Payload write the count themselves
		if copied {
			w.Opaque(payload)
		} else {
			w.Payload(payload, m.eligible, nil)
		}
		at, content = m.at, content[m.length:]
	}
	w.FixedOpaque(k.body[at:k.words])
	return Outcome{Auth: k.auth, Stat: k.stat, Low: k.low, High: k.high}
}

// answer sends the stored result k as the reply to c. c repeats the call that had this result.
func (s *Server) answer(c *Call, k *Kept) {
	o := &c.state.overhead
	size := ReplyHeader + o.Verifier + o.Before + k.words + o.Behind
	if o.Wraps {
		for _, m := range k.marks {
			size += m.length + 3
		}
	}
	w := c.Way.Writer(max(size, ErrorReply+o.Verifier))
	ok := c.putResultsHeader(w)
	out := k.put(w, o.Wraps)
	if w.Overflow() && out.good() {
		w.Release()
		payload := 0
		for _, m := range k.marks {
			payload += m.length
		}
		c.carries(ReplyHeader+k.words, payload) // notes the size
		s.refuse(c, RefuseRoom)
		s.leave()
		return
	}
	if ok {
		_, ok = s.putEnd(w, c, out)
	}
	s.send(c, w, StatusReplayed, ok)
}
