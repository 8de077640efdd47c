package local

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// After an error in the middle of a read, readAll returns the bytes before it, and does
// not report the end of the file.
func TestErrorWithinAReadIsNoEnd(t *testing.T) {
	const page = 4096
	short, err := unix.MemfdCreate("short", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(short)
	if err := unix.Ftruncate(short, page); err != nil {
		t.Fatal(err)
	}
	// /proc/self/mem is a file with an error in the middle, because the mapping b extends beyond
	// the mapped file.
	b, err := unix.Mmap(short, 0, 2*page, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(uintptr(unsafe.Pointer(&b[0])))
	got, ended, err := readAll(int(f.Fd()), make([]byte, 2*page), at)
	if got != page || ended || err != nil {
		t.Errorf("%d bytes, ended %v, %v", got, ended, err)
	}
}
