package state

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// One client cannot have locked more ranges than its share, be it by what it locks or by
// what it unlocks in between.
func TestRangesOfOneClientAreBounded(t *testing.T) {
	const memory = 1 << 20
	m, err := New(Config{Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	l := newLocker(t, m, "client")
	n := uint64(0)
	for ; l.lock(false, n, 1, true) == ok; n += 2 {
		if n > memory {
			t.Fatal("there is no bound")
		}
	}
	if u := m.Usage(); u.Memory > memory/clientPart+4*sizeRange || u.Memory < memory/clientPart/2 {
		t.Errorf("%+v", u)
	}
	if s := l.lock(false, n, 1, true); s != nfs4wire.NFS4ErrDelay {
		t.Errorf("one more: %v", s)
	}
	l.unlock(1000, 1<<64-1)
	l.unlock(0, 1<<64-1)
	if s := l.lock(false, 0, 1<<64-1, true); s != ok {
		t.Fatal(s)
	}
	ref := &Ref{ID: l.id, Client: l.c, Key: fileKey(1)}
	var s Status
	for n = 1; ; n += 2 {
		if n > memory {
			t.Fatal("there is no bound to unlocking")
		}
		if ref.ID, s = m.Unlock(ref, n, 1, nil); s != ok {
			break
		}
	}
	if s != nfs4wire.NFS4ErrDelay || m.Usage().Memory > memory/clientPart+4*sizeRange {
		t.Errorf("%v, with %+v", s, m.Usage())
	}
}

// What is held is accounted for.
func TestUsage(t *testing.T) {
	m := newManager(t)
	l := newLocker(t, m, "client")
	before := m.Usage()
	if want := (Usage{Opens: 1, Owners: 1, Files: 1, Memory: before.Memory}); before != want || before.Memory <= 0 {
		t.Errorf("%+v", before)
	}
	if s := l.lock(false, 0, 1, true); s != ok {
		t.Fatal(s)
	}
	after := m.Usage()
	if want := (Usage{Opens: 1, Locks: 1, Owners: 2, Ranges: 1, Files: 1, Memory: after.Memory}); after != want || after.Memory <= before.Memory {
		t.Errorf("%+v", after)
	}
}
