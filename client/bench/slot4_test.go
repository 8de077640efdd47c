package bench

import (
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The bench's own code allocates nothing between a reply and the next request.
// TestCompoundNoAllocation checks the session's code.
func TestSlot4AllocatesNothing(t *testing.T) {
	for name, work := range workloads4 {
		t.Run(name, func(t *testing.T) {
			b := &bench{unlimited: true, start: time.Now(), kind: work.kind}
			b.cfg = Config{Size: 512, FileSize: 1 << 20}
			c := newConn(0)
			c.file.handle = make(client.Handle, 32)
			s := newSlot4(b, work, new(client.Session), c, 0)
			s.readRes.ResOK.Data.Data = s.buf
			s.writeRes.ResOK.Count, s.writeRes.ResOK.Committed = uint32(len(s.buf)), work.stable
			s.getFH.ResOK.Object = wire.NFSFH4("a handle")
			s.listRes.ResOK.Reply.EOF = true
			requests := 0
			if n := testing.AllocsPerRun(200, func() {
				if work.next != nil {
					work.next(&s.slot)
				}
				for s.step = 0; s.step < max(work.requests, 1); s.step++ {
					s.k.Ops = work.put(s, s.ops[:0])
					if _, err := s.answer(); err != nil {
						t.Fatal(err)
					}
					requests++
				}
				b.took(s.c, 0, 1)
			}); n != 0 {
				t.Errorf("%v allocations an operation", n)
			}
			if want := max(map[string]int{"create": 3, "open": 2}[name], 1); requests != want*201 {
				t.Errorf("%d requests", requests)
			}
		})
	}
}
