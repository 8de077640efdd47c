package state

import (
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// hanging is the Claimer of a file system whose claims wait while gate is not nil, until it is closed. It tells that in
// advance.
type hanging struct {
	vfs.Claims
	gate  chan struct{}
	begun int // calls of Prompt without Release
	slow  int // calls that were not made by Prompt
}

func (h *hanging) Claim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	if h.slow++; h.gate != nil {
		<-h.gate
	}
	return h.Set(start, length, mode)
}

func (h *hanging) TestClaim(vfs.Handle, uint64, uint64, vfs.ClaimMode) (vfs.Claimed, bool, error) {
	return vfs.Claimed{}, false, nil
}

func (h *hanging) DropClaims(vfs.Handle) {
	if h.slow++; h.gate != nil {
		<-h.gate
	}
	h.Claims = vfs.Claims{}
}

func (h *hanging) Prompt(vfs.Handle, vfs.ClaimMode) (vfs.PromptClaims, bool) {
	if h.gate != nil {
		return nil, false
	}
	h.begun++
	return promptHanging{h}, true
}

type promptHanging struct{ *hanging }

func (p promptHanging) Claim(_ vfs.Handle, start, length uint64, mode vfs.ClaimMode) error {
	return p.Set(start, length, mode)
}

func (p promptHanging) DropClaims(vfs.Handle) { p.Claims = vfs.Claims{} }

func (p promptHanging) Release() { p.begun-- }

// A trial is what a client and a host do with the file fileKey(1) on a goroutine that must not wait.
type trial struct {
	t       *testing.T
	m       *Manager
	claimer vfs.Claimer
	c, host *Client
	open    StateID
}

func newTrial(t *testing.T, m *Manager, claimer vfs.Claimer) *trial {
	x := &trial{t: t, m: m, claimer: claimer, c: complete(t, m, identity("c", 1, "me")), host: newHost(t, m, "host")}
	x.open = open(t, m, x.c, "o", fileKey(1), AccessBoth, 0)
	for _, c := range []*Client{x.c, x.host} {
		is(t, "its record", m.Record(c, KindLock, 0, nil), ok)
	}
	return x
}

// lock locks the byte at.
func (x *trial) lock(at uint64, try bool) (StateID, Verdict) {
	var later Later
	id, _, v := x.m.Lock(&LockArgs{
		Ref: Ref{ID: x.open, Client: x.c, Key: fileKey(1)}, New: true, OwnerName: []byte("l"), Offset: at, Length: 1,
		Claimer: x.claimer, Try: try, Later: &later,
	})
	return id, v
}

func (x *trial) unlock(id StateID, at uint64) Verdict {
	id.Seqid = 0 // the current one
	_, v := x.m.Unlock(&Ref{ID: id, Client: x.c, Key: fileKey(1)}, at, 1, x.claimer, true)
	return v
}

func (x *trial) hostLock(at uint64) Verdict {
	var later Later
	_, v := x.m.HostLock(&LockArgs{
		Host: x.host, Ref: Ref{Client: x.host, Key: fileKey(1)}, OwnerName: []byte("h"), Offset: at, Length: 1,
		Claimer: x.claimer, Try: true, Later: &later,
	})
	return v
}

func (x *trial) hostUnlock(at uint64) Verdict {
	return x.m.HostUnlock(&HostRange{
		Ref: Ref{Client: x.host, Key: fileKey(1)}, Owner: []byte("h"), Offset: at, Length: 1, Claimer: x.claimer, Try: true,
	}, nil)
}

// all calls all four. Each would hang if it waited.
func (x *trial) all(id StateID, want Verdict) {
	x.t.Helper()
	before := x.m.Usage()
	_, v := x.lock(10, true)
	is(x.t, "LOCK", v, want)
	is(x.t, "LOCKU", x.unlock(id, 0), want)
	is(x.t, "a host's LOCK", x.hostLock(20), want)
	is(x.t, "a host's UNLOCK", x.hostUnlock(1), want)
	if after := x.m.Usage(); want == WouldWait && after != before {
		x.t.Errorf("what would wait has changed the state: %+v, before it %+v", after, before)
	}
}

// A LOCK and an UNLOCK that must not wait make their claims by Prompt alone.
func TestLockThatMustNotWaitClaimsPromptly(t *testing.T) {
	m, h := newManager(t), &hanging{}
	x := newTrial(t, m, h)
	id, v := x.lock(0, true)
	is(t, "LOCK", v, ok)
	is(t, "a host's LOCK", x.hostLock(1), ok)
	if _, claimed, _ := h.Against(0, 2, vfs.ClaimWrite); !claimed {
		t.Error("nothing is claimed")
	}
	x.all(id, ok)
	is(t, "a host's UNLOCK", x.hostUnlock(20), ok)
	is(t, "LOCKU", x.unlock(id, 10), ok)
	if !h.None() || h.slow > 0 || h.begun > 0 {
		t.Errorf("claims are left: %v; %d calls may have waited; %d are not over", !h.None(), h.slow, h.begun)
	}
	if len(m.files.claims) > 0 {
		t.Error("the Manager remembers claims that have ended")
	}
}

// While the file system of a file hangs, a call that must not wait changes nothing, and says that it would wait.
func TestLockThatMustNotWaitLeavesAHangingFileSystemAlone(t *testing.T) {
	for name, hang := range map[string]func(x *trial, h *hanging){
		"it says so":       func(*trial, *hanging) {},
		"it cannot say so": func(x *trial, h *hanging) { x.claimer = struct{ vfs.Claimer }{h} },
		"another call of the file hangs": func(x *trial, h *hanging) {
			gate := h.gate
			go func() {
				_, v := x.lock(5, false)
				is(x.t, "LOCK that may wait", v, ok)
			}()
			synctest.Wait()
			h.gate = nil // Prompt says that it does not wait
			x.t.Cleanup(func() { h.gate = gate })
		},
		"a client's end is about to give claims up": func(x *trial, h *hanging) {
			gate := h.gate
			other := complete(x.t, x.m, identity("other", 1, "me"))
			id := open(x.t, x.m, other, "o", fileKey(1), AccessBoth, 0)
			h.gate = nil
			_, _, v := x.m.Lock(&LockArgs{
				Ref: Ref{ID: id, Client: other, Key: fileKey(1)}, New: true, OwnerName: []byte("l"), Offset: 7, Length: 1, Claimer: h,
			})
			is(x.t, "LOCK", v, ok)
			h.gate = gate
			x.m.Confirm(unconfirmed(x.t, x.m, identity("other", 2, "me")))
			synctest.Wait()
			h.gate = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, h := manager(t, Config{Records: &disk{}}), &hanging{}
				x := newTrial(t, m, h)
				id, v := x.lock(0, true)
				is(t, "LOCK", v, ok)
				is(t, "a host's LOCK", x.hostLock(1), ok)
				gate := make(chan struct{})
				h.gate = gate
				hang(x, h)
				x.all(id, WouldWait)
				if h.begun > 0 {
					t.Errorf("%d calls of Prompt are not over", h.begun)
				}
				close(gate)
				synctest.Wait()
				h.gate = nil
				x.all(id, ok)
				m.Close()
			})
		})
	}
}
