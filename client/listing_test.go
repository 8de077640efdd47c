package client_test

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// circling answers each READDIR with one entry. After lead entries the cookies repeat in a circle
// of length cookies. If length is 0, the listing ends there.
type circling struct {
	t                  *testing.T
	lead, length, sent int
}

func (*circling) Cancel(*rpc.Exchange, error) {}

func (s *circling) Start(x *rpc.Exchange) {
	if s.sent > 10*(s.lead+s.length)+10 {
		s.t.Fatalf("%d calls for %d cookies", s.sent, s.lead+s.length)
	}
	cookie := s.sent
	if s.length > 0 && cookie >= s.lead {
		cookie = s.lead + (cookie-s.lead)%s.length
	}
	s.sent++
	w := xdr.NewWriter(make([]byte, 0, 4096))
	w.Uint32(0)
	w.Bool(false)
	w.Uint64(0)
	nfs3wire.PutEntry3(w, &nfs3wire.Entry3{FileID: 1, Name: []byte("x"), Cookie: uint64(cookie) + 3})
	nfs3wire.EndEntry3List(w)
	w.Bool(s.length == 0 && s.sent == s.lead)
	x.Results.Reset(w.Bytes(), 0, nil)
	x.Done(x)
}

// A listing whose cookies repeat ends with an error soon after the first repetition, whether one
// cookie repeats or several, and whether other cookies came before. A listing whose cookies all
// differ ends without an error.
func TestListingThatGoesInCircles(t *testing.T) {
	for _, c := range []circling{{lead: 0, length: 1}, {lead: 5, length: 1}, {lead: 0, length: 7}, {lead: 100, length: 30}, {lead: 500}} {
		k := &circling{t: t, lead: c.lead, length: c.length}
		var last error
		entries := 0
		for _, err := range (client.NFS3{Caller: k}).Readdir(t.Context(), client.Handle("h")) {
			if last = err; err == nil {
				entries++
			}
		}
		if c.length > 0 && !errors.Is(last, rpc.ErrBadReply) {
			t.Errorf("a circle of %d behind %d cookies ends with %v", c.length, c.lead, last)
		}
		if c.length == 0 && (last != nil || entries != c.lead) {
			t.Errorf("a listing of %d entries has %d, and ends with %v", c.lead, entries, last)
		}
	}
}
