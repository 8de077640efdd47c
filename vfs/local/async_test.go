package local_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// If Op.Async is set, a change of names or attributes does not wait for a sync. Other callers of
// the same file system wait for theirs. Promises about data hold for both.
func TestAsyncIsTheCallers(t *testing.T) {
	s := newSyncs()
	w := newWorld(t, local.Config{Sync: true, SyncHook: s.hook})
	root := w.fs.Root()
	async := *w.op
	async.Async = true
	attr := mode(0o600)
	for _, op := range []*vfs.Op{w.op, &async, w.op} {
		o, _, err := w.fs.Create(op, root, []byte("f"), &vfs.CreateHow{Mode: vfs.Guarded})
		w.ok(err, "Create")
		var a vfs.Attr
		for what, do := range map[string]func() error{
			"Mkdir and Rmdir": func() error {
				if _, _, err := w.fs.Mkdir(op, root, []byte("d"), &attr); err != nil {
					return err
				}
				_, err := w.fs.Rmdir(op, root, []byte("d"))
				return err
			},
			"Symlink": func() error {
				_, _, err := w.fs.Symlink(op, root, []byte("s"), []byte("to"), &vfs.SetAttr{})
				return err
			},
			"SetAttr": func() error { _, err := w.fs.SetAttr(op, o.Handle, &attr, nil); return err },
			"Link":    func() error { _, err := w.fs.Link(op, o.Handle, root, []byte("l"), &a); return err },
			"truncating Create": func() error {
				_, _, err := w.fs.Create(op, root, []byte("f"), &vfs.CreateHow{Attr: vfs.SetAttr{SetSize: true}})
				return err
			},
		} {
			before := s.total()
			w.ok(do(), what)
			if synced := s.total() > before; synced == op.Async {
				t.Errorf("%s: async %v, synced %v", what, op.Async, synced)
			}
		}
		before := s.total()
		_, _, _, err = w.fs.Write(op, o.Handle, 0, [][]byte{[]byte("x")}, vfs.FileSync)
		w.ok(err, "Write")
		if s.total() == before {
			t.Errorf("async %v: a stable Write was not synced", op.Async)
		}
		before = s.total()
		for _, name := range []string{"s", "l"} {
			_, err := w.fs.Remove(op, root, []byte(name))
			w.ok(err, "Remove")
		}
		_, _, err = w.fs.Rename(op, root, []byte("f"), root, []byte("g"))
		w.ok(err, "Rename")
		if synced := s.total() - before; synced != 0 == op.Async {
			t.Errorf("async %v: %d syncs for two Removes and a Rename", op.Async, synced)
		}
	}
}
