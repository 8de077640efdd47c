package billy_test

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gobilly "github.com/go-git/go-billy/v5"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// ordered is a file system that checks that no other call runs during a change. looks and changes
// are the numbers of running calls that read and that change.
type ordered struct {
	disk
	looks, changes atomic.Int32
	together       *atomic.Int32 // number of calls that ran at the same time as a change
}

func (o *ordered) look() (end func()) {
	o.looks.Add(1)
	if o.changes.Load() != 0 {
		o.together.Add(1)
	}
	return func() { o.looks.Add(-1) }
}

func (o *ordered) alter() (end func()) {
	if o.changes.Add(1) != 1 || o.looks.Load() != 0 {
		o.together.Add(1)
	}
	return func() { o.changes.Add(-1) }
}

func (o *ordered) Lstat(name string) (os.FileInfo, error) {
	defer o.look()()
	return o.disk.Lstat(name)
}

func (o *ordered) ReadDir(name string) ([]os.FileInfo, error) {
	defer o.look()()
	return o.disk.ReadDir(name)
}

func (o *ordered) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	if flag == os.O_RDONLY {
		defer o.look()()
	} else {
		defer o.alter()()
	}
	f, err := o.disk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &orderedFile{f.(diskFile), o, false}, nil
}

func (o *ordered) Remove(name string) error {
	defer o.alter()()
	return o.disk.Remove(name)
}

func (o *ordered) Rename(from, to string) error {
	defer o.alter()()
	return o.disk.Rename(from, to)
}

func (o *ordered) MkdirAll(name string, perm os.FileMode) error {
	defer o.alter()()
	return o.disk.MkdirAll(name, perm)
}

type orderedFile struct {
	diskFile
	o       *ordered
	written bool
}

func (f *orderedFile) ReadAt(p []byte, off int64) (int, error) {
	defer f.o.look()()
	return f.diskFile.ReadAt(p, off)
}

func (f *orderedFile) WriteAt(p []byte, off int64) (int, error) {
	defer f.o.alter()()
	f.written = true
	return f.diskFile.WriteAt(p, off)
}

func (f *orderedFile) Sync() error {
	defer f.o.alter()()
	f.written = false
	return nil
}

func (f *orderedFile) Close() error {
	if f.written {
		defer f.o.alter()()
	} else {
		defer f.o.look()()
	}
	return f.diskFile.Close()
}

func (f *orderedFile) Truncate(size int64) error {
	defer f.o.alter()()
	return f.diskFile.Truncate(size)
}

// While a call changes the file system, no other call into it runs, even if clients send many at
// once.
func TestChangesHaveTheFileSystemToThemselves(t *testing.T) {
	var together atomic.Int32
	vfstest.Run(t, func(t *testing.T) vfs.FileSystem {
		t.Cleanup(func() {
			if n := together.Load(); n != 0 {
				t.Errorf("%d calls ran beside a change", n)
			}
		})
		return serve(t, handler(&ordered{disk: newDisk(t), together: &together}), billy.Options{})
	}, vfstest.Options{Self: &vfs.Cred{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}, Entries: 100, Skip: notStress()})
}

// notStress returns, for Options.Skip, the tests of the suite that make one call at a time.
func notStress() map[string]string {
	skip := map[string]string{}
	for _, test := range vfstest.Tests() {
		if len(test.Name) < 7 || test.Name[:7] != "stress/" {
			skip[test.Name] = "one call at a time"
		}
	}
	return skip
}

// meeting is a file system in which each read of data waits until all reads have begun.
type meeting struct {
	disk
	all  sync.WaitGroup
	late <-chan struct{}
	t    *testing.T
}

type meetingFile struct {
	diskFile
	m *meeting
}

func (m *meeting) OpenFile(name string, flag int, perm os.FileMode) (gobilly.File, error) {
	f, err := m.disk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return meetingFile{f.(diskFile), m}, nil
}

func (f meetingFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.all.Done()
	met := make(chan struct{})
	go func() { f.m.all.Wait(); close(met) }()
	select {
	case <-met:
	case <-f.m.late:
		f.m.t.Error("a read waits for another to end")
	}
	return f.diskFile.ReadAt(p, off)
}

// Reads of data run side by side, in one file and in several, and beside lookups of files that the
// FS has not seen before.
func TestReadsRunSideBySide(t *testing.T) {
	names := []string{"a", "b", "b", "c"}
	m := &meeting{disk: newDisk(t), t: t}
	for _, name := range names {
		os.WriteFile(m.at(name), []byte(name), 0o644)
	}
	f := open(t, handler(m), billy.Options{})
	m.all.Add(len(names))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	m.late = ctx.Done()
	var readers sync.WaitGroup
	for _, name := range names {
		readers.Go(func() {
			h, err := f.find(name)
			if err != nil {
				t.Errorf("Lookup: %v", err)
			}
			f.want(h, name)
		})
	}
	readers.Wait()
}
