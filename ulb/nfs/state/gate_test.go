package state

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// A client whose lease ran out keeps its opens if another client with a valid lease denies the same
// use, because the eviction of the first client would not help the caller.
func TestUseIsDeniedByAllThatDenyIt(t *testing.T) {
	timed(t, Config{Records: &disk{}}, func(t *testing.T, m *Manager) {
		fs := &struct{ vfs.FileSystem }{}
		key := FileKey{fs, fileKey(1).Handle}
		late := holder(t, m, identity("late", 1, "me"))
		open(t, m, late, "owner", key, AccessRead, AccessWrite)
		pass(2 * leaseTime)
		live := holder(t, m, identity("live", 1, "me"))
		open(t, m, live, "owner", key, AccessRead, AccessWrite)
		for _, try := range []bool{true, false} {
			if a := asks(m, &Intent{Use: UseWrite, FS: fs, File: key.Handle, Op: &vfs.Op{Try: try}, Kind: Host}); a != No {
				t.Errorf("try: %v: answer %d", try, a)
			}
		}
		if m.Client(late.ID) == nil {
			t.Error("the late client is gone, and won nothing")
		}
	})
}

// A client may change the names of files that it has open with a deny mode. From minor version 1 on
// the session identifies the client, so another client of the same machine, or of the same IPv6
// prefix, may not remove these names. A caller of minor version 0 is no client of a later one.
func TestOnlyTheOpenerRemovesWhatItDenies(t *testing.T) {
	m := newManager(t)
	fs := &struct{ vfs.FileSystem }{}
	key := FileKey{fs, fileKey(1).Handle}
	opener, neighbour := clientFrom(t, m, "2001:db8::1", "opener"), clientFrom(t, m, "2001:db8::2", "neighbour")
	open(t, m, opener, "owner", key, AccessRead, AccessWrite)
	open(t, m, opener, "another owner", key, AccessRead, AccessWrite)
	for _, c := range []struct {
		name   string
		client *Client
		from   string
		want   Answer
	}{
		{"the opener", opener, "2001:db8::1", Yes},
		{"the opener, from elsewhere", opener, "192.0.2.1", Yes},
		{"another client of the machine", neighbour, "2001:db8::1", No},
		{"another client of the prefix", neighbour, "2001:db8::2", No},
		{"a client of minor version 0, from the machine", nil, "2001:db8::1", No},
		{"a client of minor version 0, from elsewhere", nil, "192.0.2.1", No},
	} {
		i := Intent{Use: UseRemove, FS: fs, File: key.Handle, Op: &vfs.Op{}, Client: c.client, From: netip.MustParseAddr(c.from)}
		if a := asks(m, &i); a != c.want {
			t.Errorf("%s: answer %d, not %d", c.name, a, c.want)
		}
	}
}

// A stateid exempts its caller from the deny mode of its own open, and from no other open of its
// client (RFC 8881 §9.1.2).
func TestStateIDExemptsItsOpenAlone(t *testing.T) {
	m := newManager(t)
	fs := &struct{ vfs.FileSystem }{}
	key := FileKey{fs, fileKey(1).Handle}
	c := newClient(m, 1, "client")
	var by [3]*State
	ask := func(want Answer) {
		t.Helper()
		for _, s := range by {
			if s == nil {
				continue
			}
			i := Intent{Use: UseRead, FS: fs, File: key.Handle, Op: &vfs.Op{}, By: s, Client: c}
			if a := asks(m, &i); a != want {
				t.Errorf("answer %d, not %d", a, want)
			}
		}
	}
	var ids [len(by)]StateID
	for i := range by {
		ids[i] = open(t, m, c, fmt.Sprint(i), key, AccessWrite, AccessRead)
		by[i], _ = m.Find(&ids[i], c)
		ask([...]Answer{Yes, No, No}[i])
	}
	for i, want := range []Answer{No, Yes, Yes} {
		if _, s := m.CloseOpen(&Ref{ID: ids[i], Client: c, Key: key}, false); s != ok {
			t.Fatal(s)
		}
		by[i] = nil
		ask(want)
	}
	nothingLeft(t, m)
}

// anonymously returns the answer to a caller of NFSv3, with Op.Try.
func anonymously(m *Manager, fs vfs.FileSystem, key FileKey, use Use) Answer {
	return asks(m, &Intent{Use: use, FS: fs, File: key.Handle, Op: &vfs.Op{Try: true}, Kind: Host})
}

// If the file system cannot look up a name, the Manager cannot know whether a client denies its
// removal, so the removal fails with the error of the look-up. If the name does not exist, or the
// caller may not search the directory, the removal reports that itself.
func TestNameThatCannotBeLookedUp(t *testing.T) {
	m := newManager(t)
	key := fileKey(1)
	open(t, m, newClient(m, 1, "client"), "owner", key, AccessRead, AccessWrite)
	for err, want := range map[error]Answer{
		syscall.ENOENT: Yes, syscall.EACCES: Yes, syscall.ESTALE: Yes, syscall.EXDEV: Yes, vfs.ErrWouldBlock: AfterWait,
		syscall.EIO: Failed, syscall.ENOMEM: Failed, vfs.ErrDelay: Failed,
	} {
		i := Intent{Use: UseRemove, FS: noLookup{err: err}, File: key.Handle, Name: []byte("name"), Op: &vfs.Op{}, Kind: Host}
		if a := asks(m, &i); a != want || want == Failed && i.Err != err {
			t.Errorf("%v: answer %d with error %v, not %d", err, a, i.Err, want)
		}
	}
}

// noLookup is a FileSystem in which each look-up fails.
type noLookup struct {
	vfs.FileSystem
	err error
}

func (fs noLookup) Lookup(*vfs.Op, vfs.Handle, []byte, *vfs.Attr) (o vfs.Object, err error) {
	return o, fs.err
}
