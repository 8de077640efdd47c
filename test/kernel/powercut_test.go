//go:build kernel

package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// powerCuts is the number of times that the test kills the server's guest under one load.
const powerCuts = 10

// After a power cut under load, the server's disk has everything that fsync, COMMIT or FILE_SYNC
// acknowledged, and every change of a name or mode that the server answered under the option sync
// (RFC 1813 §4.8). The server runs in a guest of its own with a disk image, and the test kills
// that guest. Killing only the daemon would prove nothing, because the page cache would survive.
func TestPowerCut(t *testing.T) {
	over(t, func(t *testing.T, transport string) {
		p := newPowerCut(t, transport, "sync")
		cuts := powerCuts
		if strings.HasSuffix(transport, "/4.0") {
			cuts = 4 // after each cut the whole grace period passes, because clients of 4.0 have no RECLAIM_COMPLETE
		}
		for range cuts {
			p.load.progress()
			p.cut()
			p.boot("sync")
			p.serving()
		}
		p.load.progress()
		p.load.guest.Signal("stop")
		t.Log(lastLine(p.load.guest.Succeed()))
		p.cut()
		p.boot("sync")
		p.serving()
	})
}

// The method of TestPowerCut finds the losses of a server that never syncs.
func TestPowerCutWithoutSync(t *testing.T) {
	t.Parallel()
	// The build tag nosync removes the daemon's sync calls. Another server gets the export option
	// async.
	options, flags := "sync", []string{"-tags=nosync"}
	if os.Getenv("NFSRDMAD_LAB_SERVER") != "" {
		options, flags = "async", nil
	}
	p := newPowerCut(t, "tcp", options, flags...)
	for range 3 {
		p.load.progress()
		p.cut()
		p.boot(options)
		if !p.server.Happens("serving") {
			if status := p.server.Wait(); status != 1 || !strings.Contains(p.server.Output(), "lost: ") {
				t.Fatalf("the server's guest ended with %d, and not for a loss", status)
			}
			t.Log(p.server.Output())
			return
		}
	}
	t.Error("no loss in three power cuts without sync calls: the test cannot see one")
}

// A powerCut is a server in a guest, and a client guest that puts it under load.
type powerCut struct {
	t       *testing.T
	network *lab.Network
	env     []string
	image   string
	server  *lab.Guest
	load    *loaded
}

func newPowerCut(t *testing.T, transport, options string, flags ...string) *powerCut {
	t.Helper()
	p := &powerCut{t: t, network: lab.NewNetwork(t), image: disk(t, 3<<30)}
	mount := []string{"EXPORT=/work", "SERVER=10.0.2.3"}
	p.env = []string{"WORKER=" + build(t, "test/kernel/worker"), "PEER=" + os.Getenv("NFSRDMAD_LAB_SERVER")}
	if os.Getenv("NFSRDMAD_LAB_SERVER") != "" {
		mount = []string{"EXPORT=/srv/disk/work", "SERVER=10.0.2.3", "MOUNT_PORT=20048"}
	} else {
		p.env = append(p.env, "DAEMON="+daemon(t, flags...))
	}
	s := &server{t: t, network: p.network, env: mount}
	ledgers := lab.Folder(t, "ledgers")
	// Without acknowledged operations there is nothing to lose.
	p.load = &loaded{t: t, server: s, ledgers: ledgers, operations: 3}
	p.boot(options)
	p.serving()
	p.load.guest = s.boot(lab.Options{Limit: 12 * time.Minute, Writable: []string{ledgers}}, "load", transport, ledgers, "outages")
	p.load.guest.Await("loading")
	return p
}

// cut kills the server's guest at once.
func (p *powerCut) cut() { p.server.Kill() }

// boot boots the server's guest again. Its script checks the disk for losses before it serves.
func (p *powerCut) boot(options string) {
	p.t.Helper()
	p.server = lab.Boot(p.t, p.network, lab.Options{
		Address: peerAddress, Memory: 1000, Limit: 12 * time.Minute, Env: p.env,
		Writable: []string{filepath.Dir(p.image), p.load.ledgers},
	}, script(p.t, "serve_disk"), p.image, p.load.ledgers, options)
}

func (p *powerCut) serving() {
	p.t.Helper()
	p.server.Await("serving")
}
