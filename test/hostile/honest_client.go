package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/nfsrdmad/nfsrdmad/server/servertest"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// Patience is the longest time that an honest client waits for an answer. A judge counts a call
// that takes longer as failed.
var Patience = 8 * time.Second

// Transports are the transports of honest clients.
var Transports = []string{"tcp", "rdma"}

// dial connects to the daemon over one of the Transports.
func (d *Daemon) dial(ctx context.Context, transport string) (*servertest.Client, error) {
	if transport == "rdma" {
		return servertest.DialRDMA(ctx, d.RDMA)
	}
	return servertest.DialTCP(ctx, d.TCP)
}

// An honestClient reads files of one export over one NFSv3 connection.
type honestClient struct {
	*servertest.Client
	files []servertest.Handle
}

// arrive connects a new honest client, mounts an export, and looks up the names in it.
func (d *Daemon) arrive(ctx context.Context, transport, export string, names ...string) (*honestClient, error) {
	c, err := d.dial(ctx, transport)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	h := &honestClient{Client: c}
	root, err := c.Mount(ctx, export)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("MNT %s: %w", export, err)
	}
	for _, name := range names {
		file, err := c.Lookup(ctx, root, name)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("LOOKUP %s: %w", name, err)
		}
		h.files = append(h.files, file)
	}
	return h, nil
}

// readOne reads one byte of the client's file number i, modulo the number of files.
func (h *honestClient) readOne(ctx context.Context, i int) error {
	var b [1]byte
	n, err := h.Read(ctx, h.files[i%len(h.files)], uint64(i), b[:])
	if err == nil && n != 1 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("READ: %w", err)
	}
	return nil
}

// makeOne creates a file in a directory and removes it.
func (h *honestClient) makeOne(ctx context.Context, dir servertest.Handle, name string) error {
	if _, err := h.Create(ctx, dir, name, 0o644); err != nil {
		return fmt.Errorf("CREATE: %w", err)
	}
	args := &wire.Remove3Args{Object: wire.DirOpArgs3{Dir: wire.FileHandle3{Data: dir}, Name: []byte(name)}}
	if err := h.Status(ctx, wire.ProcRemove, args); err != nil {
		return fmt.Errorf("REMOVE: %w", err)
	}
	return nil
}

// moveOne writes 1 MiB to a file and reads it.
func (h *honestClient) moveOne(ctx context.Context, file servertest.Handle) error {
	b := make([]byte, mib)
	if n, err := h.Write(ctx, file, 0, b, wire.Unstable); err != nil || n != len(b) {
		return fmt.Errorf("WRITE: %d bytes, %w", n, cmp.Or(err, io.ErrShortWrite))
	}
	if n, err := h.Read(ctx, file, 0, b); err != nil || n != len(b) {
		return fmt.Errorf("READ: %d bytes, %w", n, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return nil
}

// readAll reads n bytes of a file by READs of 1 MiB.
func (h *honestClient) readAll(ctx context.Context, file servertest.Handle, n int) error {
	b := make([]byte, mib)
	for at := 0; at < n; {
		k, err := h.Read(ctx, file, uint64(at), b[:min(len(b), n-at)])
		if err != nil {
			return fmt.Errorf("READ at %d: %w", at, err)
		}
		if k == 0 {
			return io.ErrUnexpectedEOF
		}
		at += k
	}
	return nil
}

// list reads the first 4,096 bytes of a directory's entries.
func (h *honestClient) list(ctx context.Context, dir servertest.Handle) error {
	args := &wire.Readdir3Args{Dir: wire.FileHandle3{Data: dir}, Count: 4096}
	if err := h.Status(ctx, wire.ProcReaddir, args); err != nil {
		return fmt.Errorf("READDIR: %w", err)
	}
	return nil
}

// A sample is the time that one action of an honest client took.
type sample struct {
	took time.Duration
	err  error
}

// samples calls the function ask n times and returns the time that each call took. It starts one
// call each interval, whether or not the earlier ones have ended, so that one long pause of the
// daemon delays all calls that begin during it.
func samples(ctx context.Context, n int, every time.Duration, ask func(ctx context.Context, i int) error) []sample {
	out := make([]sample, n)
	answers := make(chan struct{}, n)
	for i := range n {
		go func() {
			defer func() { answers <- struct{}{} }()
			ctx, cancel := context.WithTimeout(ctx, Patience)
			defer cancel()
			start := time.Now()
			err := ask(ctx, i)
			out[i] = sample{time.Since(start), err}
		}()
		wait(ctx, every)
	}
	for range n {
		<-answers
	}
	return out
}

// A summary has the median and the worst time of several samples. A failed sample counts as
// infinitely long.
type summary struct {
	median, worst time.Duration
	asked, failed int
	err           error // the error of one of the failed samples
}

const never = time.Duration(math.MaxInt64)

func summarize(all []sample) (s summary) {
	took := make([]time.Duration, len(all))
	for i, v := range all {
		took[i] = v.took
		if v.err != nil {
			took[i] = never
			s.failed++
			s.err = v.err
			if errors.Is(v.err, context.DeadlineExceeded) {
				s.err = fmt.Errorf("not within %v: %w", Patience, v.err)
			}
		}
	}
	slices.Sort(took)
	s.asked, s.median, s.worst = len(took), took[len(took)/2], took[len(took)-1]
	return s
}

func (s summary) String() string {
	text := fmt.Sprintf("median %s, worst %s of %d", inWords(s.median), inWords(s.worst), s.asked)
	if s.failed > 0 {
		text += fmt.Sprintf("; %d failed, one with: %v", s.failed, s.err)
	}
	return text
}

func inWords(d time.Duration) string {
	if d == never {
		return "never"
	}
	return d.Round(10 * time.Microsecond).String()
}
