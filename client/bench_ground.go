package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// groundKind is what a workload works on.
type groundKind uint8

const (
	groundNone   groundKind = iota // nothing: no mount either
	groundShared                   // one empty file
	groundFilled                   // one file of the bench's FileSize
	groundOwn                      // such a file for each connection
	groundEmpty                    // an empty directory for each connection
	groundListed                   // a directory of Files names
)

// ground is the directory that a bench has made, and what is in it.
type ground struct {
	root   Handle // of the export
	name   string // of the directory
	dir    Handle
	how    nfs3wire.CreateHow3
	made   []string // files, by their names
	below  []string // directories
	listed []string // files in the first of below
	// fillSize is how much a WRITE of the preparation takes.
	fillSize int
}

var errWidth = errors.New("client: server takes no data at all")

// prepare makes the ground.
func (b *bench) prepare(ctx context.Context) error {
	if b.work.needs == groundNone {
		return nil
	}
	control := b.conns[0].Conn
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	root, err := control.MountRoot(step, b.cfg.Export, b.cfg.MountPort)
	if err != nil {
		return err
	}
	b.root = root
	n := control.NFS3()
	if err := b.fit(step, n); err != nil {
		return err
	}
	b.name = fmt.Sprintf(".nfsrdmad-bench-%d-%08x", os.Getpid(), rand.Uint32())
	var attr nfs3wire.Sattr3
	attr.Mode = nfs3wire.SetMode3{SetIt: true, Mode: 0o755}
	if b.dir, err = n.Mkdir(step, root, b.name, attr); err != nil {
		if _, refused := errors.AsType[*StatusError](err); refused {
			b.name = "" // otherwise it may be there
		}
		return fmt.Errorf("client: no directory can be made in %s for the measurement: %w", b.cfg.Export, err)
	}
	b.how.ObjAttributes.Mode = nfs3wire.SetMode3{SetIt: true, Mode: 0o644}
	return b.furnish(ctx, n, attr)
}

// fit reduces the size of transfers to what the server takes.
func (b *bench) fit(ctx context.Context, n NFS3) error {
	info, err := n.Fsinfo(ctx, b.root)
	if err != nil {
		return err
	}
	most := uint32(maxReply - 64<<10)
	switch b.work.procedure {
	case nfs3wire.ProcRead:
		// The file is written first, with the same size.
		most = min(most, info.ReadMax)
	case nfs3wire.ProcWrite:
		most = min(most, info.WriteMax)
	}
	b.cfg.Size = min(b.cfg.Size, int(most))
	if b.cfg.Size == 0 || info.WriteMax == 0 {
		return errWidth
	}
	b.fillSize = min(1<<20, int(info.WriteMax))
	if b.cfg.FileSize < int64(b.cfg.Size) {
		b.cfg.FileSize = int64(b.cfg.Size)
	}
	return nil
}

// furnish makes what is in the directory.
func (b *bench) furnish(ctx context.Context, n NFS3, attr nfs3wire.Sattr3) error {
	file := func(name string, fill bool) (Handle, error) {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		b.made = append(b.made, name)
		h, _, err := n.Create(step, b.dir, name, b.how)
		if err == nil && fill {
			err = b.fill(ctx, n, h)
		}
		return h, err
	}
	var shared Handle
	var err error
	switch b.work.needs {
	case groundShared, groundFilled:
		if shared, err = file("file", b.work.needs == groundFilled); err != nil {
			return err
		}
	}
	blocks := b.blocks()
	for i, c := range b.conns {
		c.cursor.Store(blocks * uint64(i) / uint64(len(b.conns)))
		switch b.work.needs {
		case groundOwn:
			c.file, err = file(fmt.Sprintf("file-%d", i), true)
		case groundEmpty:
			c.file, err = b.directory(ctx, n, i, attr)
		case groundListed:
			if i == 0 {
				if shared, err = b.directory(ctx, n, i, attr); err == nil {
					err = b.populate(ctx, n, shared)
				}
			}
			c.file = shared
		default:
			c.file = shared
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) directory(ctx context.Context, n NFS3, i int, attr nfs3wire.Sattr3) (Handle, error) {
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	name := fmt.Sprintf("dir-%d", i)
	b.below = append(b.below, name)
	return n.Mkdir(step, b.dir, name, attr)
}

// fillers is how many calls prepare and clean at a time.
const fillers = 8

// each runs f for 0 to n-1, several at a time, up to the first error.
func each(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if first != nil || next == n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(fillers, n) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := f(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// fill writes a file of the bench's FileSize, and commits it.
func (b *bench) fill(ctx context.Context, n NFS3, file Handle) error {
	pattern := make([]byte, b.fillSize)
	draw := rand.NewChaCha8([32]byte{})
	draw.Read(pattern)
	size := b.cfg.FileSize
	chunk := int64(len(pattern))
	err := each(int((size+chunk-1)/chunk), func(i int) error {
		at := int64(i) * chunk
		p := pattern[:min(chunk, size-at)]
		for len(p) > 0 {
			step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
			w, err := n.Write(step, file, uint64(at), p, nfs3wire.Unstable)
			cancel()
			switch {
			case err != nil:
				return err
			case w.Count == 0:
				return errWidth
			}
			p, at = p[w.Count:], at+int64(w.Count)
		}
		return nil
	})
	if err != nil {
		return err
	}
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	_, err = n.Commit(step, file, 0, 0)
	return err
}

// populate puts names into a directory.
func (b *bench) populate(ctx context.Context, n NFS3, dir Handle) error {
	for i := range b.cfg.Files {
		b.listed = append(b.listed, fmt.Sprintf("a-file-with-a-name-of-usual-length-%06d", i))
	}
	return each(len(b.listed), func(i int) error {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		_, _, err := n.Create(step, dir, b.listed[i], b.how)
		return err
	})
}

// clean removes all that was made, also after the context ended.
func (b *bench) clean() error {
	if b.name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.Timeout)
	defer cancel()
	// The measurement's connections may be what failed.
	c, err := Dial(ctx, b.cfg.Target)
	if err != nil {
		return b.leftBehind(err)
	}
	defer c.Close()
	n := c.NFS3()
	dir, _, err := n.Lookup(ctx, b.root, b.name)
	if s, ok := errors.AsType[*StatusError](err); ok && s.Status == nfs3wire.NFS3ErrNoEnt {
		return nil
	}
	if err != nil {
		return b.leftBehind(err)
	}
	b.dir = dir
	var wrong []error
	keep := func(err error) {
		if s, ok := errors.AsType[*StatusError](err); ok && s.Status == nfs3wire.NFS3ErrNoEnt {
			err = nil
		}
		wrong = append(wrong, err)
	}
	for _, name := range b.made {
		keep(n.Remove(ctx, b.dir, name))
	}
	for _, name := range b.below {
		keep(b.empty(ctx, n, name))
		keep(n.Rmdir(ctx, b.dir, name))
	}
	keep(n.Rmdir(ctx, b.root, b.name))
	return b.leftBehind(errors.Join(wrong...))
}

func (b *bench) leftBehind(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("client: %s of %s is left behind: %w", b.name, b.cfg.Export, err)
}

// empty removes what is in a directory of the ground.
func (b *bench) empty(ctx context.Context, n NFS3, name string) error {
	dir, _, err := n.Lookup(ctx, b.dir, name)
	if err != nil {
		return err
	}
	var names []string
	for e, err := range n.Readdir(ctx, dir) {
		if err != nil {
			return err
		}
		if e.Name != "." && e.Name != ".." {
			names = append(names, e.Name)
		}
	}
	return each(len(names), func(i int) error { return n.Remove(ctx, dir, names[i]) })
}
