package billy_test

import (
	"os"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"

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
