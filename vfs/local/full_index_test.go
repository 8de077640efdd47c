package local_test

import (
	"testing"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// If the index has no room for names, LOOKUP with Op.Try returns ErrWouldBlock, READDIRPLUS waits,
// and LOOKUP without Op.Try does not wait.
func TestIndexWithoutRoom(t *testing.T) {
	w := newWorld(t, local.Config{IndexHandles: true})
	d := w.mkdir(w.fs.Root(), "d")
	w.create(d, "f")
	try := func() error {
		_, err := w.fs.Lookup(&vfs.Op{Cred: w.op.Cred, Try: true}, d, []byte("g"), new(vfs.Attr))
		return err
	}
	waits := make(chan struct{})
	w.fs.IndexIsFull(waits)
	w.create(d, "g")
	w.want(try(), vfs.ErrWouldBlock, "an attempt of LOOKUP")
	_, err := w.lookup(d, "f")
	w.ok(err, "Lookup")
	listed := async(func() error {
		_, err := w.fs.ReadDir(w.op, d, 0, true, new(vfs.Attr), func(*vfs.DirEntry) bool { return true })
		return err
	})
	await.Receive(t, "READDIRPLUS waits for room", waits)
	go func() {
		for range waits {
		}
	}()
	w.ok(await.Receive(t, "READDIRPLUS is answered", listed), "ReadDir")
	close(waits)
}
