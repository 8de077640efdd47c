package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

const (
	mib = 1 << 20
	// maxName is the length of the longest name in Linux's file systems, in bytes.
	maxName = 255
)

// session is a connection to a server, with the root of an export.
type session struct {
	ctx  context.Context
	conn *client.Conn
	nfs  client.NFS3
	root client.Handle
}

// pattern returns n bytes that depend on seed.
func pattern(seed uint64, n int) []byte {
	b := make([]byte, n)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// mode returns attributes for new files and directories that set only the mode, to m.
func mode(m uint32) nfs3wire.Sattr3 {
	return nfs3wire.Sattr3{Mode: nfs3wire.SetMode3{SetIt: true, Mode: m}}
}

func (s session) create(dir client.Handle, name string) (client.Handle, error) {
	file, _, err := s.nfs.Create(s.ctx, dir, name, nfs3wire.CreateHow3{Mode: nfs3wire.Unchecked, ObjAttributes: mode(0o644)})
	return file, err
}

// sizes are the sizes of transfers, in bytes: 0, odd ones, some near the inline threshold, some
// that siw sends in several segments, and 1 MiB.
var sizes = []int{0, 1, 3, 512, 1000, 3900, 4000, 4096, 4097, 65535, 65536, 300_001, mib - 1, mib}

// transfers makes WRITEs and READs of each size, and then many WRITEs and READs of 1 MiB at the
// same time.
func (s session) transfers(rounds int) error {
	for i, n := range sizes {
		file, err := s.create(s.root, "sized")
		if err != nil {
			return err
		}
		if err := s.there(file, 0, pattern(uint64(i), n), nfs3wire.FileSync); err != nil {
			return err
		}
		if err := s.back(file, 0, pattern(uint64(i), n)); err != nil {
			return err
		}
		if err := s.nfs.Remove(s.ctx, s.root, "sized"); err != nil {
			return err
		}
	}
	file, err := s.create(s.root, "large")
	if err != nil {
		return err
	}
	atOnce := func(do func(i int) error) error {
		ended := make(chan error, rounds)
		for i := range rounds {
			go func() { ended <- do(i) }()
		}
		var first error
		for range rounds {
			if err := <-ended; first == nil {
				first = err
			}
		}
		return first
	}
	if err := atOnce(func(i int) error {
		return s.there(file, uint64(i)*mib, pattern(uint64(i), mib), nfs3wire.Unstable)
	}); err != nil {
		return err
	}
	if _, err := s.nfs.Commit(s.ctx, file, 0, 0); err != nil {
		return err
	}
	if err := atOnce(func(i int) error { return s.back(file, uint64(i)*mib, pattern(uint64(i), mib)) }); err != nil {
		return err
	}
	return s.nfs.Remove(s.ctx, s.root, "large")
}

// there writes data to a file at an offset. It repeats WRITE until the server has taken all of the
// data.
func (s session) there(file client.Handle, offset uint64, data []byte, stable nfs3wire.StableHow) error {
	for at := 0; at < len(data) || at == 0; {
		w, err := s.nfs.Write(s.ctx, file, offset+uint64(at), data[at:], stable)
		if err != nil {
			return fmt.Errorf("WRITE of %d bytes at %d: %w", len(data), offset, err)
		}
		if at += w.Count; w.Count == 0 {
			if len(data) > 0 {
				return fmt.Errorf("WRITE of %d bytes at %d wrote nothing", len(data), offset)
			}
			return nil
		}
	}
	return nil
}

// back reads len(wanted) bytes of a file, and checks that they equal wanted.
func (s session) back(file client.Handle, offset uint64, wanted []byte) error {
	got := make([]byte, max(len(wanted), 1))
	for at := 0; at < len(wanted) || at == 0; {
		n, eof, err := s.nfs.Read(s.ctx, file, offset+uint64(at), got[at:])
		if err != nil {
			return fmt.Errorf("READ of %d bytes at %d: %w", len(wanted), offset, err)
		}
		if at += n; eof || n == 0 {
			if at != len(wanted) {
				return fmt.Errorf("the file ends %d bytes behind %d, not %d", at, offset, len(wanted))
			}
			break
		}
	}
	if !bytes.Equal(got[:len(wanted)], wanted) {
		return fmt.Errorf("%d bytes at %d are not those that were written", len(wanted), offset)
	}
	return nil
}

// longNames uses names of 255 bytes with MKDIR, CREATE, RENAME, LINK, LOOKUP, REMOVE and RMDIR.
func (s session) longNames() error {
	name := func(letter string) string { return strings.Repeat(letter, maxName) }
	dir, err := s.nfs.Mkdir(s.ctx, s.root, name("d"), mode(0o755))
	if err != nil {
		return err
	}
	file, err := s.create(dir, name("a"))
	if err != nil {
		return err
	}
	if err := s.there(file, 0, []byte("content"), nfs3wire.Unstable); err != nil {
		return err
	}
	if _, err := s.nfs.Commit(s.ctx, file, 0, 0); err != nil {
		return err
	}
	if err := s.nfs.Rename(s.ctx, dir, name("a"), dir, name("b")); err != nil {
		return err
	}
	if err := s.nfs.Link(s.ctx, file, dir, name("c")); err != nil {
		return err
	}
	found, attr, err := s.nfs.Lookup(s.ctx, dir, name("c"))
	if err != nil {
		return err
	}
	if attr != nil && attr.Nlink != 2 {
		return fmt.Errorf("a file with two names has %d", attr.Nlink)
	}
	if err := s.back(found, 0, []byte("content")); err != nil {
		return err
	}
	for _, letter := range []string{"b", "c"} {
		if err := s.nfs.Remove(s.ctx, dir, name(letter)); err != nil {
			return err
		}
	}
	return s.nfs.Rmdir(s.ctx, s.root, name("d"))
}

// listings lists n names of 200 bytes by READDIRPLUS and by READDIR. The replies have many KiB
// and need Reply chunks.
func (s session) listings(n int) error {
	dir, err := s.nfs.Mkdir(s.ctx, s.root, "names", mode(0o755))
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for i := range n {
		name := fmt.Sprintf("%0200d", i)
		if _, err := s.create(dir, name); err != nil {
			return err
		}
		wanted[name] = true
	}
	for _, list := range []struct {
		name string
		all  func(yield func(client.DirEntry, error) bool)
	}{{"READDIRPLUS", s.nfs.ReaddirPlus(s.ctx, dir)}, {"READDIR", s.nfs.Readdir(s.ctx, dir)}} {
		seen := map[string]bool{}
		for entry, err := range list.all {
			if err != nil {
				return fmt.Errorf("%s: %w", list.name, err)
			}
			if seen[entry.Name] {
				return fmt.Errorf("%s: %q is listed twice", list.name, entry.Name)
			}
			if seen[entry.Name] = true; entry.Name != "." && entry.Name != ".." && !wanted[entry.Name] {
				return fmt.Errorf("%s: %q is listed", list.name, entry.Name)
			}
		}
		for name := range wanted {
			if !seen[name] {
				return fmt.Errorf("%s: %q is not listed", list.name, name)
			}
		}
	}
	for name := range wanted {
		if err := s.nfs.Remove(s.ctx, dir, name); err != nil {
			return err
		}
	}
	return s.nfs.Rmdir(s.ctx, s.root, "names")
}

// texts creates symbolic links and reads their targets, which the server places directly (RDMA
// Write), as it places the data of a READ.
func (s session) texts() error {
	for _, n := range []int{1, 100, 1023} {
		text := strings.Repeat("t", n)
		if err := s.nfs.Symlink(s.ctx, s.root, "link", text); err != nil {
			return err
		}
		link, _, err := s.nfs.Lookup(s.ctx, s.root, "link")
		if err != nil {
			return err
		}
		got, err := s.nfs.Readlink(s.ctx, link)
		if err != nil {
			return err
		}
		if got != text {
			return fmt.Errorf("a link of %d bytes leads to %q", n, got)
		}
		if err := s.nfs.Remove(s.ctx, s.root, "link"); err != nil {
			return err
		}
	}
	return nil
}
