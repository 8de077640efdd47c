package tcp

import (
	"bytes"
	"testing"
	"testing/synctest"
)

// A late stream accepts no bytes from transmit until may is closed.
type late struct {
	script
	may chan struct{}
}

func (l *late) transmit(ready func() bool) error {
	<-l.may
	for ready() {
	}
	return nil
}

// With Gather, replies of calls that end while other calls are under way are sent by one write. The
// reply of the last call under way, and every reply without Gather, is written at once.
func TestRepliesAreGathered(t *testing.T) {
	for _, c := range []struct {
		gather       bool
		under        int64 // calls under way
		early, later int   // writes before the stream's goroutine runs, and in all
	}{{true, 3, 0, 1}, {true, 1, 3, 3}, {false, 3, 3, 3}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Config{Gather: c.gather})
			s, _ := toyServer(t)
			defer s.Close()
			cfg := b.cfg
			cfg.RPC, cfg.Pool = s, b.pool
			cfg = cfg.withDefaults()
			st := &late{may: make(chan struct{})}
			k := testConn(&cfg, b.pool, st)
			k.inFlight.Store(c.under)
			for i := range byte(3) {
				k.out.mu.Lock()
				k.out.appendLocked(nil, []byte{0, 0, 0, i}, nil, nil)
				k.out.pushAndUnlock()
			}
			synctest.Wait()
			if st.writes != c.early {
				t.Errorf("gather %v, %d calls: %d writes at once", c.gather, c.under, st.writes)
			}
			close(st.may)
			k.out.writers.Wait()
			if st.writes != c.later || !bytes.Equal(st.out, []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2}) {
				t.Errorf("gather %v, %d calls: %x in %d writes", c.gather, c.under, st.out, st.writes)
			}
			k.out.shut()
			k.share.Close()
		})
	}
}
