package testserver_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// copying is a file system that reads into memory only.
type copying struct{ vfs.FileSystem }

// A reader reads from the file of a test.
type reader func(offset uint64, p []byte) (n int, eof bool, err error)

// over serves the directory dir and returns a reader of its file "f" for each version and
// transport. copied: nothing is read into pipes.
func over(t *testing.T, dir string, copied bool) (map[string]reader, *mem.Pool) {
	t.Helper()
	var fs vfs.FileSystem
	fs, err := local.New(local.Config{Root: dir, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	served := fs
	if copied {
		served = copying{fs}
	}
	s := testserver.StartOver(t, served)
	s.ServeNFS4(t, 0)
	ctx := testserver.Within(t)
	all := make(map[string]reader)
	for name, target := range s.Targets() {
		c := testserver.Dial(t, target)
		root, err := c.MountRoot(ctx, "/x", 0)
		must(t, err)
		file, _, err := c.NFS3().Lookup(ctx, root, "f")
		must(t, err)
		all["3 "+name] = func(offset uint64, p []byte) (int, bool, error) { return c.NFS3().Read(ctx, file, offset, p) }

		session, err := client.DialSession(ctx, client.SessionConfig{Target: target, Minor: 1})
		must(t, err)
		t.Cleanup(func() { session.Close() })
		n := session.NFS4()
		dir, err := n.Walk(ctx, nil, "x")
		must(t, err)
		if copied { // which has no open files
			handle, err := n.Walk(ctx, dir, "f")
			must(t, err)
			all["4.1 "+name] = func(offset uint64, p []byte) (int, bool, error) {
				return n.Read(ctx, handle, nfs4wire.StateID4{}, offset, p)
			}
			continue
		}
		o, err := n.Open(ctx, client.Open4{Dir: dir, Name: "f", Owner: []byte("o"), Access: nfs4wire.Open4ShareAccessRead})
		must(t, err)
		all["4.1 "+name] = func(offset uint64, p []byte) (int, bool, error) {
			return n.Read(ctx, o.File, o.StateID, offset, p)
		}
		all["4.1 anonymous "+name] = func(offset uint64, p []byte) (int, bool, error) {
			return n.Read(ctx, o.File, nfs4wire.StateID4{}, offset, p)
		}
	}
	return all, s.Pool
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// directories are where files are made: on a disk as a rule, and in memory.
func directories(t *testing.T) map[string]string {
	shm, err := os.MkdirTemp("/dev/shm", "nfsrdmad-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(shm) })
	return map[string]string{"temporary": t.TempDir(), "memory": shm}
}

// A READ gives the file's bytes and its end, whether they go out without a copy or not.
// Only large ones over TCP do.
func TestReadWithoutCopyGivesTheFile(t *testing.T) {
	const mib = 1 << 20
	content := testserver.Pattern(5*mib + 4321)
	for where, dir := range directories(t) {
		must(t, os.WriteFile(filepath.Join(dir, "f"), content, 0o644))
		for _, copied := range []bool{false, true} {
			readers, pool := over(t, dir, copied)
			for name, read := range readers {
				before := pool.Stats().Piped
				for _, c := range [][2]int{
					{0, mib}, {mib, mib}, {2 * mib, mib - 1}, {1, mib - 4096}, {4095, 600_001}, {3*mib + 17, mib},
					{4 * mib, mib}, {5 * mib, mib}, {5*mib + 4320, mib}, {5*mib + 4321, mib}, {9 * mib, mib}, {1 << 62, mib}, {0, 4096},
				} {
					offset, p := c[0], make([]byte, c[1])
					n, eof, err := read(uint64(offset), p)
					if err != nil {
						t.Fatalf("%s, %s: %d bytes from %d on: %v", where, name, c[1], offset, err)
					}
					from := min(offset, len(content))
					want := content[from:min(offset+c[1], len(content))]
					if !bytes.Equal(p[:n], want) || eof != (offset+n >= len(content)) {
						t.Errorf("%s, copied %v, %s: %d bytes from %d on: %d bytes, eof %v; equal: %v",
							where, copied, name, c[1], offset, n, eof, bytes.Equal(p[:n], want))
					}
				}
				pipes, overTCP := pool.Stats().Piped-before, strings.HasSuffix(name, " tcp")
				if (pipes > 0) != (overTCP && !copied) {
					t.Errorf("%s, copied %v, %s: %d pipes were used", where, copied, name, pipes)
				}
			}
			// A call's memory goes back behind its reply.
			await.Until(t, "no memory is in use", func() bool { return pool.Stats().InUse == 0 })
		}
	}
}

// READs that go on while the file is made shorter and longer again and is written to give
// bytes that it had, as many as the reply says, and leave the connection as it is.
func TestReadWithoutCopyOfAFileThatChanges(t *testing.T) {
	const mib = 1 << 20
	for where, dir := range directories(t) {
		f, err := os.Create(filepath.Join(dir, "f"))
		must(t, err)
		defer f.Close()
		ones := bytes.Repeat([]byte{1}, 4*mib) // and what is left out between them is 0
		_, err = f.WriteAt(ones, 0)
		must(t, err)
		readers, pool := over(t, dir, false)
		stop := make(chan struct{})
		var changes, reads sync.WaitGroup
		changes.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := f.Truncate(int64(i * 77_777 % (4 * mib))); err != nil {
					t.Error(err)
				}
				if _, err := f.WriteAt(ones[:mib], int64(i%4*mib)); err != nil {
					t.Error(err)
				}
			}
		})
		for name, read := range readers {
			if !strings.HasSuffix(name, " tcp") {
				continue
			}
			for range 2 {
				reads.Go(func() {
					p := make([]byte, mib)
					for i := range 10 {
						offset := uint64(i % 5 * mib)
						n, eof, err := read(offset, p)
						if err != nil {
							t.Errorf("%s, %s: %v", where, name, err)
							return
						}
						if n < len(p) && n == 0 && !eof {
							t.Errorf("%s, %s: nothing, and no end", where, name)
						}
						for at, v := range p[:n] {
							if v > 1 {
								t.Errorf("%s, %s: byte %d is %d", where, name, offset+uint64(at), v)
								return
							}
						}
					}
				})
			}
		}
		reads.Wait()
		close(stop)
		changes.Wait()
		if st := pool.Stats(); st.InUse != 0 || st.Piped == 0 {
			t.Errorf("%d bytes are in use; %d pipes were used", st.InUse, st.Piped)
		}
	}
}
