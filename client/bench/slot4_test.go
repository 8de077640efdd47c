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
			b := &bench{unlimited: true, start: time.Now(), needs: work.needs}
			b.cfg = Config{Size: 512, FileSize: 1 << 20}
			b.four.work = work
			b.four.opens = []file4{{handle: make(client.Handle, 32)}}
			s := newSlot4(b, newConn(nil, nil, 0), 0)
			s.readRes.ResOK.Data.Data = s.buf
			s.writeRes.ResOK.Count, s.writeRes.ResOK.Committed = uint32(len(s.buf)), work.stable
			s.getFH.ResOK.Object = wire.NFSFH4("a handle")
			s.listRes.ResOK.Reply.EOF = true
			requests := 0
			if n := testing.AllocsPerRun(200, func() {
				s.step = 0
				work.next(s)
				for more := true; more; s.step++ {
					s.k.Ops = work.put(s, s.ops[:0])
					var err error
					if _, more, err = work.answer(s); err != nil {
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
