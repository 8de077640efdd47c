//go:build hostile

package restarts

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest/stalled"
)

// One export hangs, and clients of NFSv4.0 and 4.2 have locks in it, and calls that hang there. The same clients work in
// the other export, restart, and are evicted. The grace period ends, clients that do not confirm themselves are swept
// away, a reload removes the export, and the daemon ends.
func TestExportThatHangs(t *testing.T) {
	m := stalled.Mount(t)
	defer m.LetGo()
	works := t.TempDir()
	h := newHanging(t, daemon(t), m.Dir, works)
	backing := map[string]string{"hangs": m.Backing, "works": works}
	var stay, silent, restart, gone []*holder
	for _, minor := range []uint32{0, 2} {
		stay = append(stay, h.holder("stays", minor, backing))
		silent = append(silent, h.holder("silent", minor, backing))
		restart = append(restart, h.holder("restarts", minor, backing))
		gone = append(gone, h.holder("gone", minor, backing))
	}
	present := append(append(append([]*holder{}, stay...), silent...), restart...)
	for _, c := range append(present, gone...) {
		defer c.leave()
	}
	h.configure("hangs", "works")
	h.start()
	for _, c := range append(present, gone...) {
		h.step(c.name+" takes locks", func() error { return h.arrives(c, h.take) })
		c.leave()
	}
	h.process.Kill()

	h.start()
	for _, c := range present {
		h.step(c.name+" claims its locks", func() error { return h.arrives(c, h.claim) })
	}
	strangers := h.strangers()
	m.Stall()
	stuck := make(chan struct{}, len(present))
	for _, c := range present {
		h.step(c.name+" makes a call that hangs", func() error { return h.sticks(c, stuck) })
	}
	m.AwaitHanging(len(present))

	awake := append(append([]*holder{}, stay...), restart...)
	// The clients that have gone hold the grace period open until its time is over.
	for i, c := range stay {
		h.step(c.name+" works when grace has ended", func() error { return h.awaits(c, gone[i].files[inWorks], awake) })
	}
	for i, c := range restart {
		h.restarts(c, stay[(i+1)%len(stay)], awake)
	}
	for i, c := range silent {
		h.step(c.name+" is evicted", func() error { return h.awaits(stay[i], c.files[inWorks], awake) })
	}
	h.step("strangers are swept away", func() error { return sweptAway(strangers, awake) })
	h.removes(awake, gone[0].files[inWorks])
	h.leavesBehind(m.LetGo)
	for range present {
		<-stuck
	}
	h.endsWithTheExport(m, stay)
}

// strangers returns clients that have not confirmed themselves.
func (h *hanging) strangers() (all []*caller) {
	h.t.Helper()
	for i := range 60 {
		c := &caller{name: fmt.Sprint("stranger ", i), minor: uint32(i % 2 * 2)}
		h.step(c.name, func() error { return c.introduce(h.target) })
		h.t.Cleanup(c.leave)
		all = append(all, c)
	}
	return all
}

// restarts lets a client restart. Its lock in /works is then free for another client.
func (h *hanging) restarts(c, other *holder, awake []*holder) {
	h.t.Helper()
	c.leave()
	c.verifier[0]++
	h.step(c.name, func() error {
		if err := c.arrive(h.target); err != nil {
			return err
		}
		return c.done()
	})
	h.step(other.name+" gets the lock of "+c.name, func() error { return h.awaits(other, c.files[inWorks], awake) })
	h.step(c.name+" works", func() error { return h.awaits(c, c.files[inWorks], awake) })
}

// removes removes the export /hangs. The clients work in /works with the file free.
func (h *hanging) removes(clients []*holder, free *file) {
	h.t.Helper()
	h.configure("works")
	if line := h.reload(); !strings.Contains(line, `"removed": ["/hangs"]`) {
		h.t.Errorf("it does not say that the export is removed: %s", line)
	}
	for _, c := range clients {
		h.step(c.name+" works without the export", func() error { return h.awaits(c, free, clients) })
		h.step(c.name+" asks for the removed export", func() error {
			if _, err := c.caller.find(nil, "hangs"); client.StatusOf(err) != nfs4wire.NFS4ErrNoEnt {
				return fmt.Errorf("its name: %w", err)
			}
			if _, err := c.take(c.files[inHangs], false); client.StatusOf(err) != nfs4wire.NFS4ErrStale {
				return fmt.Errorf("its handle: %w", err)
			}
			return nil
		})
	}
}

// sweptAway confirms one stranger after the other, until that is too late for one of each version.
func sweptAway(strangers []*caller, awake []*holder) error {
	late := make(map[uint32]bool)
	for _, c := range strangers {
		if err := c.confirm(); client.StatusOf(err) == nfs4wire.NFS4ErrStaleClientID {
			late[c.minor] = true
		} else if err != nil {
			return err
		}
		if len(late) == 2 {
			return nil
		}
		for _, o := range awake {
			if err := o.renew(); err != nil {
				return err
			}
		}
		time.Sleep(lease / 16)
	}
	return errors.New("the daemon still knows them")
}

// endsWithTheExport starts a daemon that has the export again, and ends it while calls hang there.
func (h *hanging) endsWithTheExport(m *stalled.FileSystem, clients []*holder) {
	h.t.Helper()
	h.configure("hangs", "works")
	h.start()
	for _, c := range clients {
		c.leave()
		h.step(c.name+" claims once more", func() error { return h.arrives(c, func(c *holder) error { return c.done() }) })
		h.step(c.name+" locks again", func() error { return h.awaits(c, c.files[inHangs], clients[:0]) })
		h.step(c.name+" holds a lock", func() (err error) {
			c.locks[inHangs], err = c.take(c.files[inHangs], false)
			return err
		})
	}
	m.Stall()
	stuck := make(chan struct{}, len(clients))
	for _, c := range clients {
		h.step(c.name+" makes a call that hangs", func() error { return h.sticks(c, stuck) })
	}
	m.AwaitHanging(len(clients))
	h.leavesBehind(m.LetGo)
	for range clients {
		<-stuck
	}
}
