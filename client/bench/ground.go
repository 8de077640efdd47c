package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// A groundKind is the kind of files that a workload needs.
type groundKind uint8

const (
	groundNone   groundKind = iota // no files: Run mounts nothing
	groundShared                   // one empty file
	groundFilled                   // one file of the bench's FileSize
	groundOwn                      // one file of the bench's FileSize for each connection
	groundEmpty                    // an empty directory for each connection
	groundListed                   // a directory of Files names
)

// ground is the directory that a bench has made for the measurement, and its content.
type ground struct {
	root   client.Handle // the export's root
	name   string        // the directory made for the measurement; "" if there is none
	dir    client.Handle
	how    nfs3wire.CreateHow3
	made   []string // names of files in dir
	below  []string // names of directories in dir
	listed []string // names of the files that readdirplus lists
	// fillSize is the number of bytes of each WRITE of the preparation.
	fillSize int
}

var errNoData = errors.New("bench: the server takes WRITEs of no bytes only: its FSINFO says so, or its reply to a WRITE")

// prepare mounts the export, and makes the directory and the files that the workload needs.
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
	// Each connection makes a GETATTR first, because a server may allow only few calls at a time on
	// a connection until a call on it has used a valid file handle.
	for _, c := range b.conns {
		if _, err := c.NFS3().Getattr(step, root); err != nil {
			return err
		}
	}
	n := control.NFS3()
	if err := b.fit(step, n); err != nil {
		return err
	}
	b.name = groundName()
	var attr nfs3wire.Sattr3
	attr.Mode = nfs3wire.SetMode3{SetIt: true, Mode: 0o755}
	if b.dir, err = n.Mkdir(step, root, b.name, attr); err != nil {
		if _, refused := errors.AsType[*client.StatusError](err); refused {
			b.name = "" // the server made no directory; after any other error it may have made one
		}
		return fmt.Errorf("bench: making a directory for the measurement in %s: %w", b.cfg.Export, err)
	}
	b.how.ObjAttributes.Mode = nfs3wire.SetMode3{SetIt: true, Mode: 0o644}
	return b.furnish(ctx, n, attr)
}

// groundName returns a directory name that no other bench uses.
func groundName() string { return fmt.Sprintf(".nfsrdmad-bench-%d-%08x", os.Getpid(), rand.Uint32()) }

// fit reduces Config.Size to what the server allows. Then it sets b.fillSize, and makes
// Config.FileSize at least as large as Config.Size.
func (b *bench) fit(ctx context.Context, n client.NFS3) error {
	info, err := n.Fsinfo(ctx, b.root)
	if err != nil {
		return err
	}
	most := uint32(client.MaxTransfer)
	switch b.work.procedure {
	case nfs3wire.ProcRead:
		most = min(most, info.ReadMax)
	case nfs3wire.ProcWrite:
		most = min(most, info.WriteMax)
	}
	b.cfg.Size = min(b.cfg.Size, int(most))
	if b.cfg.Size == 0 || info.WriteMax == 0 {
		return errNoData
	}
	b.fillSize = min(1<<20, int(info.WriteMax))
	if b.cfg.FileSize < int64(b.cfg.Size) {
		b.cfg.FileSize = int64(b.cfg.Size)
	}
	return nil
}

// furnish makes the files and directories that the workload needs, and assigns one to each
// connection.
func (b *bench) furnish(ctx context.Context, n client.NFS3, attr nfs3wire.Sattr3) error {
	file := func(name string, fill bool) (client.Handle, error) {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		b.made = append(b.made, name)
		h, _, err := n.Create(step, b.dir, name, b.how)
		if err == nil && fill {
			err = b.fill(ctx, n, h)
		}
		return h, err
	}
	var shared client.Handle
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

// directory makes the directory of connection i.
func (b *bench) directory(ctx context.Context, n client.NFS3, i int, attr nfs3wire.Sattr3) (client.Handle, error) {
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	name := fmt.Sprintf("dir-%d", i)
	b.below = append(b.below, name)
	return n.Mkdir(step, b.dir, name, attr)
}

// parallel is the number of calls in progress while the files of a measurement are made and
// removed.
const parallel = 8

// each calls f for every i from 0 to n-1, up to parallel calls at a time. After the first error,
// or when ctx has ended, it makes no more calls, and cancels the context of the running calls.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := 0; i < n && within.Err() == nil; i++ {
		g.Go(func() error { return f(within, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// noise returns n pseudo-random bytes, the same ones at each call.
func noise(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// fill writes a file of Config.FileSize bytes, and commits it.
func (b *bench) fill(ctx context.Context, n client.NFS3, file client.Handle) error {
	pattern := noise(b.fillSize)
	size := b.cfg.FileSize
	chunk := int64(len(pattern))
	err := each(ctx, int((size+chunk-1)/chunk), func(ctx context.Context, i int) error {
		at := int64(i) * chunk
		return b.writeAll(ctx, n, file, at, pattern[:min(chunk, size-at)])
	})
	if err != nil {
		return err
	}
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	_, err = n.Commit(step, file, 0, 0)
	return err
}

// writeAll writes p to a file, by as many WRITEs as the server needs. The argument at is the
// offset of p in the file.
func (b *bench) writeAll(ctx context.Context, n client.NFS3, file client.Handle, at int64, p []byte) error {
	return b.inWrites(ctx, at, p, func(ctx context.Context, at uint64, p []byte) (int, error) {
		w, err := n.Write(ctx, file, at, p, nfs3wire.Unstable)
		return w.Count, err
	})
}

// inWrites calls the function write until all bytes of p are written. Each call gets the rest of
// p and its offset in the file, has the time limit Config.Timeout, and returns the number of
// bytes that it wrote. The argument at is the offset of p in the file.
func (b *bench) inWrites(ctx context.Context, at int64, p []byte, write func(ctx context.Context, at uint64, p []byte) (int, error)) error {
	for len(p) > 0 {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		n, err := write(step, uint64(at), p)
		cancel()
		switch {
		case err != nil:
			return err
		case n == 0:
			return errNoData
		}
		p, at = p[n:], at+int64(n)
	}
	return nil
}

// populate makes Config.Files files in a directory.
func (b *bench) populate(ctx context.Context, n client.NFS3, dir client.Handle) error {
	for i := range b.cfg.Files {
		b.listed = append(b.listed, fmt.Sprintf("a-file-with-a-name-of-usual-length-%06d", i))
	}
	return each(ctx, len(b.listed), func(ctx context.Context, i int) error {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		_, _, err := n.Create(step, dir, b.listed[i], b.how)
		return err
	})
}

// notThere reports whether a call failed because the name does not exist.
func notThere(err error) bool {
	s, ok := errors.AsType[*client.StatusError](err)
	return ok && s.Status == nfs3wire.NFS3ErrNoEnt
}

// clean removes everything that the bench made, even after the context of Run has ended.
func (b *bench) clean() error {
	if b.name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.Timeout)
	defer cancel()
	// The connections of the measurement may have failed, so clean makes a new one.
	c, err := client.Dial(ctx, b.cfg.Target)
	if err != nil {
		return b.leftBehind(err)
	}
	defer c.Close()
	n := c.NFS3()
	dir, _, err := n.Lookup(ctx, b.root, b.name)
	switch {
	case notThere(err):
		return nil
	case err != nil:
		return b.leftBehind(err)
	}
	b.dir = dir
	var wrong []error
	keep := func(err error) {
		if !notThere(err) {
			wrong = append(wrong, err)
		}
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
	return fmt.Errorf("bench: removing the measurement's directory %s of %s: %w", b.name, b.cfg.Export, err)
}

// empty removes the content of a directory that the bench has made.
func (b *bench) empty(ctx context.Context, n client.NFS3, name string) error {
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
	return each(ctx, len(names), func(ctx context.Context, i int) error { return n.Remove(ctx, dir, names[i]) })
}
