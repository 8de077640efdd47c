package server_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// BenchmarkLockUnlock measures LOCK and then UNLOCK of one byte by NLM, over one connection of TCP to a daemon in another
// process: one pair after the other, and 16 callers at once, each with an owner and a byte of its own in one file. The
// NULL call shows how much of a pair is the way to the daemon and back. The directory is in memory, so that no disk is
// measured. To count the daemon's system calls, attach strace -c -f to it.
func BenchmarkLockUnlock(b *testing.B) {
	dir, err := os.MkdirTemp("/dev/shm", "locks")
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	name := filepath.Join(dir, "file")
	if err := cmp.Or(os.Chmod(dir, 0o777), os.WriteFile(name, nil, 0o600), os.Chmod(name, 0o666)); err != nil {
		b.Fatal(err)
	}
	d := startOn(b, dir, b.TempDir(), "rw,insecure")
	ctx := testContext(b)
	c, root := d.mounted(b)
	file, err := c.Lookup(ctx, root, "file")
	if err != nil {
		b.Fatal(err)
	}
	do := func(proc nlm.Procedure, args interface{ Encode(*xdr.Writer) }) error {
		stat, err := callNLM(ctx, c, proc, args)
		if err == nil && stat != nlm.Granted {
			err = fmt.Errorf("%v: %v", proc, stat)
		}
		return err
	}
	pair := func(owner uint32) error {
		l := nlm.Lock4{CallerName: []byte("bench"), FileHandle: nlm.Object(file), SVID: int32(owner),
			OH: fmt.Append(nil, owner), Offset: uint64(owner), Length: 1}
		lock, unlock := nlm.LockArgs4{Exclusive: true, Lock: l}, nlm.UnlockArgs4{Lock: l}
		if err := do(nlm.ProcLock, &lock); err != nil {
			return err
		}
		return do(nlm.ProcUnlock, &unlock)
	}
	b.Run("null", func(b *testing.B) {
		for b.Loop() {
			if err := rpc.Do(ctx, c.Caller, &rpc.Exchange{Program: nlm.Program, Version: nlm.Version, Cred: c.Cred}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, callers := range [...]uint32{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for owner := range callers {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if err := pair(owner + 1); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}
