package billy_test

import (
	"os"
	"path/filepath"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

// shaken is a disk on which another program changes a file each time that it is opened to read.
type shaken struct {
	disk
	change func(path string) error // nil: no change
}

func (d *shaken) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	if flag == os.O_RDONLY && d.change != nil {
		if err := d.change(d.at(name)); err != nil {
			return nil, err
		}
	}
	return d.disk.OpenFile(name, flag, perm)
}

// A READ during which another program extends or cuts the file describes one state of it. If the
// program does so in every try, the client has to come again.
func TestReadBesideAnotherProgram(t *testing.T) {
	d := &shaken{disk: newDisk(t)}
	fs := serve(t, handler(d), billy.Options{})
	op := &vfs.Op{Cred: &vfs.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
	o, _, err := fs.Create(op, fs.Root(), []byte("f"), &vfs.CreateHow{})
	if err != nil {
		t.Fatal(err)
	}
	opened := 0
	to := func(sizes ...int64) func(path string) error {
		opened = 0
		return func(path string) error {
			opened++
			return os.Truncate(path, sizes[min(opened, len(sizes))-1])
		}
	}
	for _, c := range []struct {
		what   string
		change func(path string) error
		offset uint64
		n      int
		eof    bool
		size   uint64
		err    error
	}{
		{"grows", to(2000), 0, 1000, true, 1000, nil},
		{"grows, read at its end", to(2000), 1000, 0, true, 1000, nil},
		{"is cut", to(700, 700), 0, 700, true, 700, nil},
		{"is cut, behind its new end", to(700, 700), 900, 0, true, 700, nil},
		{"grows beyond the buffer", to(5000), 500, 500, true, 1000, nil},
		{"is shorter each time", to(900, 800, 700, 600, 500, 400, 300, 200), 0, 0, false, 0, vfs.ErrDelay},
	} {
		if err := os.Truncate(d.at("f"), 1000); err != nil {
			t.Fatal(err)
		}
		d.change = c.change
		opened = 0
		var a vfs.Attr
		n, eof, err := fs.Read(op, o.Handle, c.offset, make([]byte, 4000), &a)
		d.change = nil
		if err != c.err || n != c.n || eof != c.eof || err == nil && a.Size != c.size {
			t.Errorf("a file that %s: %d bytes, end of file %v, size %d, %v; want %d, %v, %d, %v", c.what, n, eof, a.Size, err, c.n, c.eof, c.size, c.err)
		}
	}
}

// stuck is a disk on which reads of the file "slow" wait until the gate is closed.
type stuck struct {
	disk
	reading chan struct{} // receives a value when a read waits
	gate    chan struct{}
}

func (d *stuck) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	if flag == os.O_RDONLY && filepath.Base(name) == "slow" {
		d.reading <- struct{}{}
		<-d.gate
	}
	return d.disk.OpenFile(name, flag, perm)
}

// A read that does not return, and a change that waits for it, do not hold up calls that read no data. If
// the file system allows reads beside changes, the change does not wait either.
func TestCallsBesideASlowRead(t *testing.T) {
	for _, concurrent := range []bool{false, true} {
		d := &stuck{disk: newDisk(t), reading: make(chan struct{}, 1), gate: make(chan struct{})}
		fs := serve(t, handler(d), billy.Options{Concurrent: concurrent})
		op := &vfs.Op{Cred: &vfs.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}}
		o, _, err := fs.Create(op, fs.Root(), []byte("slow"), &vfs.CreateHow{})
		if err == nil {
			_, _, _, err = fs.Write(op, o.Handle, 0, [][]byte{[]byte("text")}, vfs.Unstable)
		}
		if err != nil {
			t.Fatal(err)
		}
		read, changed := make(chan error, 1), make(chan error, 1)
		go func() {
			var a vfs.Attr
			_, _, err := fs.Read(op, o.Handle, 0, make([]byte, 4), &a)
			read <- err
		}()
		await.Receive(t, "the read waits", d.reading)
		go func() {
			_, _, err := fs.Create(op, fs.Root(), []byte("other"), &vfs.CreateHow{})
			changed <- err
		}()
		if concurrent {
			if err := await.Receive(t, "the end of a Create beside the read", changed); err != nil {
				t.Error(err)
			}
		} else {
			await.Until(t, "the Create waits for the read", fs.(*billy.FS).WaitsForReads)
		}
		await.Return(t, "GetAttr and Lookup beside the read", func() {
			var a vfs.Attr
			if err := fs.GetAttr(op, fs.Root(), &a); err != nil {
				t.Error(err)
			}
			if _, err := fs.Lookup(op, fs.Root(), []byte("slow"), &a); err != nil {
				t.Error(err)
			}
		})
		close(d.gate)
		if err := await.Receive(t, "the end of the read", read); err != nil {
			t.Error(err)
		}
		if !concurrent {
			if err := await.Receive(t, "the end of the Create", changed); err != nil {
				t.Error(err)
			}
		}
	}
}
