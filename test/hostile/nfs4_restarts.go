package hostile

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// A restarted runs one daemon after the other with the same state directory and the same export.
type restarted struct {
	t         testing.TB
	program   string
	cfg       Config
	directory string
}

func newRestarted(t testing.TB, program string, cfg Config) *restarted {
	r := &restarted{t: t, program: program, cfg: cfg, directory: t.TempDir()}
	furnish(t, r.directory, fewNames)
	return r
}

func (r *restarted) exports() []exported {
	return []exported{{r.directory, "/", "rw,insecure,no_root_squash"}}
}

// start starts the next daemon and waits until it serves.
func (r *restarted) start() *Daemon {
	r.t.Helper()
	return startDaemon(r.t, r.program, r.cfg, r.exports())
}

// refused starts the next daemon, which must end instead of serving, and returns its output.
func (r *restarted) refused() string {
	r.t.Helper()
	d := launch(r.t, r.program, r.cfg, r.exports())
	d.awaitEnd()
	return d.Output()
}

// awaitEnd waits until the daemon has ended.
func (d *Daemon) awaitEnd() { await.Receive(d.t, "the daemon's end", d.Done()) }

// client makes a connection from the given address. It does not create a client ID yet.
func (d *Daemon) client(ctx context.Context, from netip.Addr) (*client4, error) {
	conn, err := dial(ctx, from, d.TCP, 0)
	if err != nil {
		return nil, err
	}
	tie(ctx, conn)
	return &client4{minor: 1, link: tcpLink(conn)}, nil
}

// begin creates a client ID and a session, and does not send RECLAIM_COMPLETE.
func (c *client4) begin(name []byte) error {
	sequence, err := c.exchange(name)
	if err == nil {
		err = c.create(sequence, 1)
	}
	return err
}

// reclaims sends a SEQUENCE in slot 0, and reports whether its status flags tell the client to
// reclaim its state.
func (c *client4) reclaims(number uint32) (bool, error) {
	d, err := c.do(c.sequence(0, number, false))
	if err != nil {
		return false, err
	}
	d.Skip(4 + 4 + 16 + 4 + 4 + 4 + 4) // operation, status, session, sequence, slot, highest, target
	return d.Uint32()&wire.Seq4StatusRestartReclaimNeeded != 0, d.Err()
}

// previous reclaims an open of a file with CLAIM_PREVIOUS.
func (c *client4) previous(number uint32, file []byte, owner string, access, deny uint32) error {
	_, err := c.do(c.sequence(0, number, false), putFH(file), op4{wire.OpOpen, &wire.Open4Args{
		ShareAccess: access, ShareDeny: deny, Owner: wire.StateOwner4{Clientid: c.id, Owner: []byte(owner)},
		Openhow: wire.Openflag4{Opentype: wire.Open4Nocreate}, Claim: wire.OpenClaim4{Claim: wire.ClaimPrevious},
	}})
	return err
}

// recorders are peers that create one client ID after the other. Every second client sends
// RECLAIM_COMPLETE, so the daemon records this client in its state directory. The peers continue
// until the daemon has ended.
type recorders struct {
	mu sync.Mutex
	// promised has the names of the clients whose RECLAIM_COMPLETE succeeded, so the daemon has
	// recorded them. never has the names of the clients that did not send it. Each name has the
	// address of its client.
	promised, never map[string]netip.Addr
}

func (r *recorders) run(ctx context.Context, d *Daemon, round, peers int, begun func()) {
	var all sync.WaitGroup
	for i := range peers {
		all.Go(func() {
			from := Strangers(peers)(i)
			c, err := d.client(ctx, from)
			for n := 0; err == nil; n++ {
				name := fmt.Sprintf("%d %d %d", round, i, n)
				into := r.promised
				if n%2 == 0 {
					err = c.start([]byte(name), 1)
				} else {
					into, err = r.never, c.begin([]byte(name))
				}
				if err == nil {
					r.mu.Lock()
					into[name] = from
					r.mu.Unlock()
					begun()
				}
				var full status4
				if errors.As(err, &full) && wire.NFSStat4(full) == wire.NFS4ErrDelay {
					err = nil
				}
			}
		})
	}
	all.Wait()
}
