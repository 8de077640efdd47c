package vfstest_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// A file system that returns ErrWouldBlock for every call with Op.Try passes the suite, including
// the tests of optional interfaces.
func TestSuiteOfAHesitantFileSystem(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return vfstest.Hesitant(memfs.New(memfs.Options{})) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Entries: 1000, Birth: true,
		Foreign: func(_ *testing.T, fs vfs.FileSystem, h vfs.Handle, _ string) vfstest.ForeignClaim {
			m, ok := vfs.As[*memfs.FS](fs)
			if !ok {
				t.Fatal("no file system is behind it")
			}
			return func(start, length uint64, mode vfs.ClaimMode) error { return m.ForeignClaim(h, start, length, mode) }
		},
		Restart: func(t *testing.T, fs vfs.FileSystem) vfs.FileSystem {
			crasher, ok := vfs.As[interface{ Crash() }](fs)
			if !ok {
				t.Fatal("the further interface is lost")
			}
			crasher.Crash()
			return fs
		},
	})
}

// attempts calls every method of vfs.FileSystem and of the optional interfaces that takes an Op.
// It finds them by reflection, so that methods added later are included. blocked are the methods
// that returned ErrWouldBlock, reached those that called the wrapped file system, which is nil.
func attempts(fs vfs.FileSystem, try bool) (blocked, reached []string) {
	for _, seam := range []reflect.Type{reflect.TypeFor[vfs.FileSystem](), reflect.TypeFor[vfs.Opener](), reflect.TypeFor[vfs.Sparse](),
		reflect.TypeFor[vfs.Copier](), reflect.TypeFor[vfs.Xattrs]()} {
		b, r := attemptsOf(seam, fs, try)
		blocked, reached = append(blocked, b...), append(reached, r...)
	}
	return blocked, reached
}

func attemptsOf(seam reflect.Type, fs any, try bool) (blocked, reached []string) {
	for i := range seam.NumMethod() {
		m := seam.Method(i)
		if m.Type.NumIn() == 0 || m.Type.In(0) != reflect.TypeFor[*vfs.Op]() {
			continue
		}
		args := []reflect.Value{reflect.ValueOf(&vfs.Op{Cred: &vfs.Cred{}, Try: try})}
		for k := 1; k < m.Type.NumIn(); k++ {
			args = append(args, reflect.Zero(m.Type.In(k)))
		}
		func() {
			defer func() {
				if recover() != nil {
					reached = append(reached, m.Name)
				}
			}()
			out := reflect.ValueOf(fs).MethodByName(m.Name).Call(args)
			if err, _ := out[len(out)-1].Interface().(error); errors.Is(err, vfs.ErrWouldBlock) {
				blocked = append(blocked, m.Name)
			}
		}()
	}
	return blocked, reached
}

// noMethods has the methods of all interfaces, but a call of one panics, because each interface is
// nil.
type noMethods struct {
	vfs.FileSystem
	vfs.Opener
	vfs.Sparse
	vfs.Copier
	vfs.Xattrs
}

// With Op.Try, no method of a File of Hesitant calls the wrapped File.
func TestHesitantFilesReachNothing(t *testing.T) {
	fs := vfstest.Hesitant(opening{})
	op := &vfs.Op{Cred: &vfs.Cred{}}
	file, err := fs.(vfs.Opener).Open(op, vfs.Handle{}, vfs.OpenRead)
	if err != nil {
		t.Fatal(err)
	}
	seam := reflect.TypeFor[vfs.File]()
	if blocked, reached := attemptsOf(seam, file, true); len(blocked) != 4 || len(reached) != 0 {
		t.Errorf("attempts: %q would block, %q reached the file", blocked, reached)
	}
	if blocked, reached := attemptsOf(seam, file, false); len(blocked) != 0 || len(reached) != 4 {
		t.Errorf("without Try: %q would block, %q reached the file", blocked, reached)
	}
}

// opening is a file system whose Open returns a File with nil methods.
type opening struct{ noMethods }

func (opening) Open(*vfs.Op, vfs.Handle, vfs.OpenAccess) (vfs.File, error) {
	return struct{ vfs.File }{}, nil
}

func TestHesitantAttemptsReachNothing(t *testing.T) {
	const methods = 29
	none := noMethods{}
	if blocked, reached := attempts(vfstest.Hesitant(none), true); len(blocked) < methods || len(reached) != 0 {
		t.Errorf("attempts: %q would block, %q reached the file system", blocked, reached)
	}
	if blocked, reached := attempts(vfstest.Hesitant(none), false); len(blocked) != 0 || len(reached) < methods {
		t.Errorf("without Try: %q would block, %q reached the file system", blocked, reached)
	}
	blocked, reached := attempts(vfstest.Hesitant(none, "GetAttr", "Remove"), true)
	if len(blocked) != 2 || blocked[0] != "GetAttr" || blocked[1] != "Remove" || len(reached) < methods-2 {
		t.Errorf("two methods hesitate: %q would block, %q reached the file system", blocked, reached)
	}
}
