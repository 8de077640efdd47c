package client

import (
	"errors"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A reply is valid only if its SEQUENCE result has the request's own session, slot and sequence
// number (RFC 8881 §18.46.3). After an invalid reply, the client sends another SEQUENCE with the
// same number, to find out whether the request was executed. Then it uses the slot again.
func TestReplyOfAnotherSlotIsNone(t *testing.T) {
	for name, change := range map[string]func(r *nfs4wire.Sequence4Args){
		"another session":   func(r *nfs4wire.Sequence4Args) { r.Sessionid[3]++ },
		"another slot":      func(r *nfs4wire.Sequence4Args) { r.Slotid++ },
		"an earlier number": func(r *nfs4wire.Sequence4Args) { r.Sequenceid-- },
		"a later number":    func(r *nfs4wire.Sequence4Args) { r.Sequenceid++ },
	} {
		t.Run(name, func(t *testing.T) {
			var asked []uint32
			s, _ := cannedSession(func(w *xdr.Writer, args *nfs4wire.Sequence4Args) {
				result := *args
				if asked = append(asked, args.Sequenceid); len(asked) == 2 {
					change(&result)
				}
				goodSequence(w, &result, 1)
			})
			run := func() error {
				c := &Compound{}
				s.Start(c)
				return c.Err
			}
			if err := run(); err != nil {
				t.Fatalf("the first request: %v", err)
			}
			if err := run(); !errors.Is(err, rpc.ErrBadReply) {
				t.Errorf("the second one, whose reply is another's: %v", err)
			}
			if err := run(); err != nil {
				t.Errorf("the third one: %v", err)
			}
			if want := []uint32{1, 2, 2, 3}; len(asked) != len(want) || asked[2] != 2 || asked[3] != 3 {
				t.Errorf("the numbers asked for are %v, want %v", asked, want)
			}
		})
	}
}
