//go:build verbs

package shim_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A control is memory that the tests share with testdata/libraries.c, to control it.
type control struct {
	thread, fail, error, calls, objects, requests, deaf, vectors, opcode, length, disassociates int32
}

var libraries *control

// TestMain compiles testdata/libraries.c and runs the tests in a process that finds these libraries
// where others would find libibverbs and librdmacm.
func TestMain(m *testing.M) {
	if name := os.Getenv("SHIM_CONTROL"); name != "" {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			var memory []byte
			memory, err = unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			f.Close()
			if err == nil {
				libraries = (*control)(unsafe.Pointer(&memory[0]))
				os.Exit(m.Run())
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(withLibraries())
}

func withLibraries() (code int) {
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	verbs, manager, shared := filepath.Join(dir, "libibverbs.so.1"), filepath.Join(dir, "librdmacm.so.1"), filepath.Join(dir, "control")
	options := []string{"-shared", "-fPIC", "-g", "-O1", "-Wall", "-Wextra", "-o", verbs, "testdata/libraries.c"}
	os.Unsetenv("RDMAV_ALLOW_DISASSOC_DESTROY") // TestObjectsOfARemovedDeviceCanBeDestroyed
	environment := append(os.Environ(), "SHIM_CONTROL="+shared, "LD_LIBRARY_PATH="+dir)
	if sanitized {
		options = append(options, "-fsanitize=address")
	} else {
		// Memory that is used after free has other bytes.
		environment = append(environment, "LD_PRELOAD="+verbs, "MALLOC_PERTURB_=165", "MALLOC_CHECK_=3")
		options = append(options, "-DCALLOC")
	}
	compile := exec.Command("gcc", options...)
	compile.Stdout, compile.Stderr = os.Stderr, os.Stderr
	for _, err := range []error{compile.Run(), os.Symlink(verbs, manager), os.WriteFile(shared, make([]byte, os.Getpagesize()), 0o600)} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	c := exec.Command(os.Args[0], os.Args[1:]...)
	c.Env, c.Stdout, c.Stderr = environment, os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// failing runs the function call while the libraries let its n-th call that can fail fail with err. It
// returns the number of such calls. If n is 0, none fails.
func failing(n int, err unix.Errno, call func()) (calls int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	libraries.fail, libraries.error, libraries.calls = int32(n), int32(err), 0
	libraries.thread = int32(unix.Gettid())
	defer func() { libraries.thread = 0 }()
	call()
	return int(libraries.calls)
}
