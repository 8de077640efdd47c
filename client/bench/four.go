package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// four is the state of a measurement with NFS version 4.
type four struct {
	work    *workload4
	session *client.Session
	nfs     client.NFS4
	root    client.Handle // the export's root
	name    string        // the directory made for the measurement; "" if there is none
	dir     client.Handle
	made    []string // names of files in dir
	below   []string // names of directories in dir
	files   []file4
	// opens has the file or directory that each connection works on, by connection number.
	opens []file4
}

// file4 is an open file with its stateid, or a directory.
type file4 struct {
	handle client.Handle
	open   wire.StateID4
}

// run4 measures a server with NFS version 4.
func run4(ctx context.Context, cfg Config) (*Result, error) {
	minor, err := minorOf(cfg.NFS)
	if err != nil {
		return nil, err
	}
	work := workloads4[cfg.Workload]
	if work == nil {
		return nil, fmt.Errorf("bench: workload %q is none of %v", cfg.Workload, Workloads4())
	}
	b := &bench{cfg: cfg, needs: work.needs}
	b.four.work = work
	if b.four.session, err = b.session(ctx, minor, cfg.Connections); err != nil {
		return nil, err
	}
	b.four.nfs = client.NFS4{Session: b.four.session, Patient: true}
	for i := range cfg.Connections {
		b.conns = append(b.conns, newConn(nil, nil, i))
	}
	err = b.prepare4(ctx)
	var m *Result
	if err == nil {
		stop := b.abandonAfter(ctx)
		m, err = b.run(ctx, func(c *conn, i int) worker { return newSlot4(b, c, i) })
		stop()
	}
	if cleanup := b.clean4(minor); err == nil {
		err = cleanup
	}
	return m, err
}

// abandonAfter starts a goroutine that waits for the end of ctx. If requests are still not
// answered Config.Timeout later, the goroutine abandons the session, because a session waits for
// its server without limit. The function stop ends the goroutine.
func (b *bench) abandonAfter(ctx context.Context) (stop func()) {
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		t := time.NewTimer(b.cfg.Timeout)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
			b.four.session.Abandon()
		}
	}()
	return func() {
		close(ended)
		<-gone
	}
}

func minorOf(version string) (uint32, error) {
	switch version {
	case "4.1":
		return 1, nil
	case "4.2":
		return 2, nil
	}
	return 0, fmt.Errorf("bench: NFS version %q is none of 3, 4.1, 4.2", version)
}

func (b *bench) session(ctx context.Context, minor uint32, connections int) (*client.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	return client.DialSession(ctx, client.SessionConfig{
		Target: b.cfg.Target, Minor: minor, Slots: b.cfg.Depth * b.cfg.Connections, Connections: connections, Timeout: b.cfg.Timeout,
	})
}

// prepare4 makes the directory of the measurement and its content.
func (b *bench) prepare4(ctx context.Context) error {
	if b.needs == groundNone {
		return nil
	}
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	f := &b.four
	var err error
	if f.root, err = f.nfs.Walk(step, nil, b.cfg.Export); err != nil {
		return err
	}
	if err := b.fit4(step); err != nil {
		return err
	}
	f.name = groundName()
	if f.dir, err = f.nfs.Mkdir(step, f.root, f.name, 0o755); err != nil {
		if _, refused := errors.AsType[*client.OpError](err); refused {
			f.name = "" // the server made no directory; after any other error it may have made one
		}
		return fmt.Errorf("bench: making a directory for the measurement in %s: %w", b.cfg.Export, err)
	}
	return b.furnish4(ctx)
}

// aroundData is an upper bound for the part of a request or reply that is not data, in bytes.
const aroundData = 1024

// fit4 reduces Config.Size to what the server and the session allow. Then it sets b.fillSize, and
// makes Config.FileSize at least as large as Config.Size.
func (b *bench) fit4(ctx context.Context) error {
	f := &b.four
	attr, err := f.nfs.Getattr(ctx, f.root, wire.Bits(wire.Fattr4Maxread, wire.Fattr4Maxwrite))
	if err != nil {
		return err
	}
	limits := f.session.Limits().ForeChanAttrs
	within := func(server uint64, channel uint32) int {
		return int(min(server, uint64(max(channel, aroundData)-aroundData), client.MaxTransfer))
	}
	reads, writes := within(attr.MaxRead, limits.Maxresponsesize), within(attr.MaxWrite, limits.Maxrequestsize)
	switch {
	case f.work.writes:
		b.cfg.Size = min(b.cfg.Size, writes)
	case f.work.data, f.work.lists:
		b.cfg.Size = min(b.cfg.Size, reads)
	}
	if b.cfg.Size == 0 || writes == 0 {
		return errNoData
	}
	b.fillSize = min(1<<20, writes)
	b.cfg.FileSize = max(b.cfg.FileSize, int64(b.cfg.Size))
	return nil
}

// furnish4 makes the files and directories of the measurement, and assigns one to each
// connection.
func (b *bench) furnish4(ctx context.Context) error {
	f := &b.four
	var shared file4
	var err error
	switch b.needs {
	case groundShared, groundFilled:
		if shared, err = b.file4(ctx, sharedFile, b.needs == groundFilled); err != nil {
			return err
		}
	}
	blocks := b.blocks()
	for i, c := range b.conns {
		c.cursor.Store(blocks * uint64(i) / uint64(len(b.conns)))
		at := shared
		switch b.needs {
		case groundOwn:
			at, err = b.file4(ctx, fmt.Sprintf("file-%d", i), true)
		case groundEmpty:
			at.handle, err = b.directory4(ctx, fmt.Sprintf("dir-%d", i))
		case groundListed:
			if i == 0 {
				shared.handle, err = b.listed4(ctx, "dir")
			}
			at = shared
		}
		if err != nil {
			return err
		}
		f.opens = append(f.opens, at)
	}
	return nil
}

// file4 makes a file and leaves it open. If fill is true, it writes Config.FileSize bytes to the
// file.
func (b *bench) file4(ctx context.Context, name string, fill bool) (file4, error) {
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	f := &b.four
	f.made = append(f.made, name)
	o, err := f.nfs.Open(step, client.Open4{
		Dir: f.dir, Name: name, Owner: []byte("bench"), Access: wire.Open4ShareAccessBoth | wire.Open4ShareAccessWantNoDeleg,
		Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
	})
	if err != nil {
		return file4{}, err
	}
	at := file4{o.File, o.StateID}
	f.files = append(f.files, at)
	if fill {
		err = b.fill4(ctx, at)
	}
	return at, err
}

// sharedFile is the name of the file that all connections work on.
const sharedFile = "file"

// listed4 makes a directory of Config.Files files.
func (b *bench) listed4(ctx context.Context, name string) (client.Handle, error) {
	dir, err := b.directory4(ctx, name)
	if err != nil {
		return nil, err
	}
	return dir, each(ctx, b.cfg.Files, func(ctx context.Context, i int) error {
		step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		o, err := b.four.nfs.Open(step, client.Open4{
			Dir: dir, Name: fmt.Sprintf("entry-%06d", i), Owner: fmt.Appendf(nil, "list %d", i), Access: wire.Open4ShareAccessWrite | wire.Open4ShareAccessWantNoDeleg,
			Create: &wire.Createhow4{Mode: wire.Unchecked4, Createattrs: client.ModeAttribute(0o644)},
		})
		if err != nil {
			return err
		}
		return b.four.nfs.CloseFile(step, o.File, o.StateID)
	})
}

func (b *bench) directory4(ctx context.Context, name string) (client.Handle, error) {
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	b.four.below = append(b.four.below, name)
	return b.four.nfs.Mkdir(step, b.four.dir, name, 0o755)
}

// fill4 writes a file of Config.FileSize bytes, and commits it.
func (b *bench) fill4(ctx context.Context, file file4) error {
	pattern := noise(b.fillSize)
	size, chunk := b.cfg.FileSize, int64(len(pattern))
	err := each(ctx, int((size+chunk-1)/chunk), func(ctx context.Context, i int) error {
		from := int64(i) * chunk
		return b.inWrites(ctx, from, pattern[:min(chunk, size-from)], func(ctx context.Context, at uint64, p []byte) (int, error) {
			w, err := b.four.nfs.Write(ctx, file.handle, file.open, at, p, wire.Unstable4)
			return w.Count, err
		})
	})
	if err != nil {
		return err
	}
	step, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	_, err = b.four.nfs.Commit(step, file.handle, 0, 0)
	return err
}

// clean4 ends the session. It removes the files with a new session, because the session of the
// measurement may have failed.
func (b *bench) clean4(minor uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.Timeout)
	defer cancel()
	f := &b.four
	var wrong []error
	for _, at := range f.files {
		if err := f.nfs.CloseFile(ctx, at.handle, at.open); err != nil {
			wrong = append(wrong, err)
		}
	}
	wrong = append(wrong, f.session.Close())
	if f.name == "" {
		return b.leftBehind(errors.Join(wrong...))
	}
	s, err := b.session(ctx, minor, 1)
	if err != nil {
		return b.leftBehind(err)
	}
	wrong = append(wrong, b.remove4(ctx, client.NFS4{Session: s, Patient: true}), s.Close())
	return b.leftBehind(errors.Join(wrong...))
}

// remove4 removes the files and directories of the measurement.
func (b *bench) remove4(ctx context.Context, n client.NFS4) error {
	f := &b.four
	dir, err := n.Walk(ctx, f.root, f.name)
	if missing4(err) {
		return nil
	} else if err != nil {
		return err
	}
	var wrong []error
	keep := func(err error) {
		if err != nil && !missing4(err) {
			wrong = append(wrong, err)
		}
	}
	for _, name := range f.made {
		keep(n.Remove(ctx, dir, name))
	}
	for _, name := range f.below {
		keep(empty4(ctx, n, dir, name))
		keep(n.Remove(ctx, dir, name))
	}
	keep(n.Remove(ctx, f.root, f.name))
	return errors.Join(wrong...)
}

func missing4(err error) bool { return client.StatusOf(err) == wire.NFS4ErrNoEnt }

// empty4 removes the content of a directory of the measurement.
func empty4(ctx context.Context, n client.NFS4, in client.Handle, name string) error {
	dir, err := n.Walk(ctx, in, name)
	if err != nil {
		return err
	}
	var names []string
	for e, err := range n.Readdir(ctx, dir, wire.Bitmap4{}) {
		if err != nil {
			return err
		}
		names = append(names, e.Name)
	}
	return each(ctx, len(names), func(ctx context.Context, i int) error { return n.Remove(ctx, dir, names[i]) })
}
