package nlm_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// LOCK and UNLOCK run on the goroutine that has received them, if the file system can claim at once.
func TestLockAtOnceRunsWhereItArrives(t *testing.T) {
	s := newSite(t, options{})
	h, w := s.host("a", "10.0.0.2:900", 1000), want{1, 0, 10, true}
	is(t, "LOCK", h.lock(w), wire.Granted)
	is(t, "UNLOCK", h.unlock(w), wire.Granted)
	before := s.rpc.Stats().InPlace
	is(t, "LOCK", h.lock(w), wire.Granted)
	is(t, "UNLOCK", h.unlock(w), wire.Granted)
	is(t, "calls that have run where they arrived", s.rpc.Stats().InPlace-before, 2)
	if _, claimed, _ := s.fs.TestClaim(s.handle, 0, vfs.ToEnd, vfs.ClaimWrite); claimed {
		t.Error("a claim is left")
	}
}

// hangs is a file system in which every claim of one file waits until gate is closed. It cannot tell that in advance,
// unless it says so (tells).
type hangs struct {
	vfs.FileSystem
	vfs.Claimer
	file    vfs.Handle
	entered chan string
	gate    chan struct{}
}

func (h *hangs) wait(file vfs.Handle, what string) {
	if file == h.file {
		h.entered <- what
		<-h.gate
	}
}

func (h *hangs) Claim(file vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	h.wait(file, "Claim")
	return h.Claimer.Claim(file, start, length, mode)
}

func (h *hangs) DropClaims(file vfs.Handle) {
	h.wait(file, "DropClaims")
	h.Claimer.DropClaims(file)
}

// tells is a hangs whose claims are prompt for all other files.
type tells struct{ *hangs }

func (h tells) Prompt(file vfs.Handle, most vfs.ClaimMode) (vfs.PromptClaims, bool) {
	if file == h.file {
		return nil, false
	}
	return h.Claimer.(vfs.PromptClaimer).Prompt(file, most)
}

// While a claim hangs, the goroutine that has received the LOCK, or the UNLOCK, serves the calls behind it on its connection:
// of another file, and of the same one.
func TestHangingClaimHoldsNoConnection(t *testing.T) {
	for name, of := range map[string]func(h *hangs) vfs.FileSystem{
		"a file system that cannot tell": func(h *hangs) vfs.FileSystem { return h },
		"a file system that tells":       func(h *hangs) vfs.FileSystem { return tells{h} },
	} {
		t.Run(name, func(t *testing.T) {
			fs := &hangs{entered: make(chan string, 10), gate: make(chan struct{})}
			s := newSite(t, options{of: func(below vfs.FileSystem) vfs.FileSystem {
				fs.FileSystem, fs.Claimer = below, below.(vfs.Claimer)
				return of(fs)
			}})
			other, _ := s.create("other", 0o644)
			h, w := s.host("a", "10.0.0.2:900", 1000), want{1, 0, 10, true}
			is(t, "LOCK", h.lock(w), wire.Granted)
			fs.file = s.handle
			// serve passes a call to the server on a goroutine, as a transport's receives calls, and returns it when the goroutine
			// could receive the next call.
			serve := func(p wire.Procedure, args encoder) *rpctest.Call {
				c := rpctest.NewCall(h.conn, h.message(p, args))
				c.Space = rpctest.TCPRoom
				await.Return(t, "the goroutine that has received the call goes on", func() {
					if _, ok := h.rpc.Admit(&c.Call); ok {
						h.rpc.Serve(&c.Call)
					}
				})
				return c
			}
			behind := func() {
				t.Helper()
				l := h.lock4(w)
				l.FileHandle = other
				is(t, "LOCK of another file", h.res(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Lock: l}), wire.Granted)
				is(t, "UNLOCK of another file", h.res(wire.ProcUnlock, &wire.UnlockArgs4{Cookie: cookie, Lock: l}), wire.Granted)
			}
			unlock := serve(wire.ProcUnlock, &wire.UnlockArgs4{Cookie: cookie, Lock: h.lock4(w)})
			is(t, "the call that hangs", await.Receive(t, "the UNLOCK is with the file system", fs.entered), "DropClaims")
			behind()
			lock := serve(wire.ProcLock, &wire.LockArgs4{Cookie: cookie, Exclusive: true, Lock: h.lock4(want{2, 50, 1, true})})
			behind()
			select {
			case <-unlock.Done:
				t.Error("the UNLOCK is answered before its claim is given up")
			case <-lock.Done:
				t.Error("the LOCK is answered before its claim is made")
			default:
			}
			close(fs.gate)
			for _, c := range []*rpctest.Call{unlock, lock} {
				await.Receive(t, "the call is answered", c.Done)
				var res wire.Res4
				d, err := c.Results()
				if err != nil {
					t.Fatal(err)
				}
				res.Decode(d)
				is(t, "its status", res.Stat, wire.Granted)
			}
			is(t, "the other call that hung", await.Receive(t, "the LOCK is with the file system", fs.entered), "Claim")
		})
	}
}
