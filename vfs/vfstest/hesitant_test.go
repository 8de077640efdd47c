package vfstest_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	memfs "github.com/nfsrdmad/nfsrdmad/vfs/mem"
	"github.com/nfsrdmad/nfsrdmad/vfs/vfstest"
)

// The suite holds of a file system that blocks at every call, further interfaces
// included: the restart is one.
func TestSuiteOfAHesitantFileSystem(t *testing.T) {
	vfstest.Run(t, func(*testing.T) vfs.FileSystem { return vfstest.Hesitant(memfs.New(memfs.Options{})) }, vfstest.Options{
		CanSwitchUsers: true, Devices: true, SpecialFiles: true, Entries: 1000,
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

// attempts calls every method of vfs.FileSystem that takes an Op, those of later
// years too, and tells how each ended: with ErrWouldBlock, or by reaching the
// file system behind it, of which there is none.
func attempts(fs vfs.FileSystem, try bool) (blocked, reached []string) {
	seam := reflect.TypeFor[vfs.FileSystem]()
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

func TestHesitantAttemptsReachNothing(t *testing.T) {
	const methods = 19
	var none vfs.FileSystem
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
