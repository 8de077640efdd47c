package state

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// 1,000 clients with 10 files each reclaim them after a restart, one file a second in all. No file
// is lost or given to another client meanwhile, and the grace period lasts at most twice its time.
func TestThousandClientsClaimSlowly(t *testing.T) {
	const clients, files = 1000, 10
	const grace = clients * files * time.Second * 51 / 100 // reclaiming all files takes nearly twice as long
	name := func(i int) *Identity { return identity(fmt.Sprint("client ", i), 1, "me") }
	cfg := Config{Records: &disk{}, Lease: 2 * grace, Grace: grace}
	timed(t, cfg, func(t *testing.T, m *Manager) {
		for i := range clients {
			c := complete(t, m, name(i))
			for f := range files {
				open(t, m, c, "o", fileKey(i*files+f), AccessBoth, AccessBoth)
			}
		}
	})
	d := cfg.Records.(*disk)
	for n, r := range d.records {
		r.Lease = grace // so that the grace period is not longer
		d.records[n] = r
	}
	timed(t, cfg, func(t *testing.T, m *Manager) {
		thief := complete(t, m, name(clients))
		var all []*Client
		for i := range clients {
			all = append(all, confirmed(t, m, name(i)))
		}
		for f := range files {
			for i, c := range all {
				a := OpenArgs{Client: thief, OwnerName: []byte("o"), Key: fileKey(i*files + f), Access: AccessBoth, Deny: AccessBoth}
				if _, s := m.Open(&a); s != inGrace {
					t.Fatalf("file %d of client %d is given to another client: %v", f, i, s)
				}
				a.Client, a.Claimed = c, true
				if _, s := m.Open(&a); s != ok {
					t.Fatalf("claim %d of client %d after %v: %v", f, i, m.now(), s)
				}
				time.Sleep(time.Second)
			}
		}
		for _, c := range all {
			s := m.ReclaimComplete(c, nil)
			is(t, "RECLAIM_COMPLETE", s, ok)
		}
		synctest.Wait()
		if m.InGrace() || m.now() > 2*grace || m.Usage().Opens != clients*files {
			t.Errorf("grace: %v, after %v of twice %v; %d files are open", m.InGrace(), m.now(), grace, m.Usage().Opens)
		}
	})
}
