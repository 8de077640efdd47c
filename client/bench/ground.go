package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
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
	root  client.Handle // the export's root
	name  string        // the directory made for the measurement; "" if there is none
	dir   client.Handle
	made  []string // names of files in dir
	below []string // names of directories in dir
	open  []file
	// fillSize is the number of bytes of each WRITE of the preparation.
	fillSize int
}

var errNoData = errors.New("bench: the server takes WRITEs of no bytes only: its FSINFO says so, or its reply to a WRITE")

// statusOf returns the status with which the server refused a request, or NFS4_OK. The statuses that
// this package looks at have the same numbers in all versions of NFS.
func statusOf(err error) wire.NFSStat4 {
	if e, ok := errors.AsType[*client.StatusError](err); ok {
		return wire.NFSStat4(e.Status)
	}
	return client.StatusOf(err)
}

func missing(err error) bool { return statusOf(err) == wire.NFS4ErrNoEnt }

// prepare mounts the export, and makes the directory and the files that the workload needs.
func (b *bench) prepare(ctx context.Context) error {
	if b.kind.needs == groundNone {
		return nil
	}
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	var err error
	if b.root, err = b.nfs.mount(step); err == nil {
		err = b.fit(step)
	}
	if err != nil {
		return fmt.Errorf("bench: mounting %s of %s and asking for its limits, for at most %v: %w", b.cfg.Export, b.cfg.Address(), b.cfg.Timeout, err)
	}
	b.name = fmt.Sprintf(".nfsrdmad-bench-%d-%08x", os.Getpid(), rand.Uint32()) // no other bench uses this name
	if b.dir, err = b.nfs.mkdir(step, b.root, b.name); err != nil {
		if statusOf(err) != wire.NFS4OK {
			b.name = "" // the server made no directory; after any other error it may have made one
		}
		return fmt.Errorf("bench: making a directory for the measurement in %s: %w", b.cfg.Export, err)
	}
	return b.furnish(ctx)
}

// fit reduces Config.Size to what the server allows. Then it sets b.fillSize, and makes
// Config.FileSize at least as large as Config.Size.
func (b *bench) fit(ctx context.Context) error {
	most, err := b.nfs.limits(ctx, b.root)
	if err != nil {
		return err
	}
	switch {
	case b.kind.writes:
		b.cfg.Size = min(b.cfg.Size, most.write)
	case b.kind.data:
		b.cfg.Size = min(b.cfg.Size, most.read)
	case b.kind.needs == groundListed:
		b.cfg.Size = min(b.cfg.Size, most.list)
	}
	if b.cfg.Size == 0 || most.write == 0 {
		return errNoData
	}
	b.fillSize = min(1<<20, most.write)
	b.cfg.FileSize = max(b.cfg.FileSize, int64(b.cfg.Size))
	return nil
}

// sharedFile is the name of the file that all connections work on.
const sharedFile = "file"

// furnish makes the files and directories that the workload needs, and assigns one to each
// connection.
func (b *bench) furnish(ctx context.Context) error {
	var shared file
	var err error
	switch b.kind.needs {
	case groundShared, groundFilled:
		shared, err = b.file(ctx, sharedFile, b.kind.needs == groundFilled)
	case groundListed:
		if shared, err = b.directory(ctx, "dir"); err == nil {
			err = b.populate(ctx, shared.handle)
		}
	}
	blocks := b.blocks()
	for i, c := range b.conns {
		c.cursor.Store(blocks * uint64(i) / uint64(len(b.conns)))
		c.file = shared
		switch {
		case err != nil:
			return err
		case b.kind.needs == groundOwn:
			c.file, err = b.file(ctx, fmt.Sprintf("file-%d", i), true)
		case b.kind.needs == groundEmpty:
			c.file, err = b.directory(ctx, fmt.Sprintf("dir-%d", i))
		}
	}
	return err
}

// file makes a file and leaves it open. If fill is true, it writes Config.FileSize bytes to the file.
func (b *bench) file(ctx context.Context, name string, fill bool) (file, error) {
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	b.made = append(b.made, name)
	f, err := b.nfs.create(step, b.dir, name)
	if err != nil {
		return f, err
	}
	b.open = append(b.open, f)
	if fill {
		err = b.fill(ctx, f)
	}
	return f, err
}

func (b *bench) directory(ctx context.Context, name string) (file, error) {
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	b.below = append(b.below, name)
	h, err := b.nfs.mkdir(step, b.dir, name)
	return file{handle: h}, err
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

// fill writes Config.FileSize pseudo-random bytes to a file, and commits them.
func (b *bench) fill(ctx context.Context, f file) error {
	pattern := make([]byte, b.fillSize)
	rand.NewChaCha8([32]byte{}).Read(pattern)
	size, chunk := b.cfg.FileSize, int64(len(pattern))
	err := each(ctx, int((size+chunk-1)/chunk), func(ctx context.Context, i int) error {
		at := int64(i) * chunk
		return b.writeAll(ctx, f, at, pattern[:min(chunk, size-at)])
	})
	if err != nil {
		return err
	}
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	return b.nfs.commit(step, f)
}

// writeAll writes p to a file, by as many WRITEs as the server needs. The argument at is the
// offset of p in the file.
func (b *bench) writeAll(ctx context.Context, f file, at int64, p []byte) error {
	for len(p) > 0 {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		n, err := b.nfs.write(step, f, uint64(at), p)
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
func (b *bench) populate(ctx context.Context, dir client.Handle) error {
	return each(ctx, b.cfg.Files, func(ctx context.Context, i int) error {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		f, err := b.nfs.create(step, dir, fmt.Sprintf(b.kind.entry, i))
		if err != nil {
			return err
		}
		return b.nfs.release(step, f)
	})
}

// clean ends the connections and removes everything that the bench made, even after the context of
// Run has ended. It removes the files over a new connection, because those of the measurement may
// have failed.
func (b *bench) clean() error {
	ctx := context.Background()
	var wrong []error
	for _, f := range b.open {
		wrong = append(wrong, b.step(ctx, func(step context.Context) error { return b.nfs.release(step, f) }))
	}
	wrong = append(wrong, b.nfs.end())
	if b.name == "" {
		return errors.Join(wrong...)
	}
	n, err := dial(ctx, &b.cfg, 1)
	if err == nil {
		err = errors.Join(b.removeAll(ctx, n), n.end())
	}
	if err = errors.Join(append(wrong, err)...); err != nil {
		return fmt.Errorf("bench: removing the measurement's directory %s of %s: %w", b.name, b.cfg.Export, err)
	}
	return nil
}

// step calls f with a context that ends after Config.Timeout.
func (b *bench) step(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	return f(ctx)
}

// removeAll removes the files and directories of the measurement.
func (b *bench) removeAll(ctx context.Context, n protocol) error {
	var wrong []error
	keep := func(err error) {
		if !missing(err) {
			wrong = append(wrong, err)
		}
	}
	var dir client.Handle
	err := b.step(ctx, func(step context.Context) (err error) {
		dir, err = n.Walk(step, b.root, b.name)
		return err
	})
	if err != nil {
		keep(err)
		return errors.Join(wrong...)
	}
	for _, name := range b.made {
		keep(b.step(ctx, func(step context.Context) error { return n.Remove(step, dir, name) }))
	}
	for _, name := range b.below {
		keep(b.empty(ctx, n, dir, name))
		keep(b.step(ctx, func(step context.Context) error { return n.Rmdir(step, dir, name) }))
	}
	keep(b.step(ctx, func(step context.Context) error { return n.Rmdir(step, b.root, b.name) }))
	return errors.Join(wrong...)
}

// empty removes the files in a directory of the measurement.
func (b *bench) empty(ctx context.Context, n protocol, in client.Handle, name string) error {
	var dir client.Handle
	var names []string
	err := b.step(ctx, func(step context.Context) (err error) {
		if dir, err = n.Walk(step, in, name); err == nil {
			names, err = n.list(step, dir)
		}
		return err
	})
	if err != nil {
		return err
	}
	return each(ctx, len(names), func(ctx context.Context, i int) error {
		return b.step(ctx, func(step context.Context) error { return n.Remove(step, dir, names[i]) })
	})
}
