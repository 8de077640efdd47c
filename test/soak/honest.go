package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// patience is the longest time that an honest client waits for an answer. Only a daemon that hangs
// takes that long.
const patience = 3 * time.Minute

const (
	fileSize  = 256 << 10 // largest size of an honest client's file, in bytes
	pieceSize = 64 << 10  // largest length of one read or write, in bytes
	stay      = 150       // number of actions before the client disconnects and connects again
)

// An honest is an honest client. It works on files of its own, and knows their content.
type honest struct {
	*soak
	transport client.Transport
	version   int // 3, 40, 41, 42
	// export is the name of the export with the client's files, and place is its directory on
	// this machine. If fails is true, the disk of the export may fail, and the client then
	// accepts errors of the disk and stale handles.
	export, place string
	fails         bool
	random        *rand.Rand
	lives         int

	call    caller
	dir     client.Handle
	content map[string][]byte // by name; no entry if the disk may have lost it
	// burnt counts, for each file, the names that the client has given up (file-0, file-1 and so on),
	// because a late REMOVE of such a name may still be executed.
	burnt map[string]int
	took  *latencies
}

func (h *honest) String() string {
	return fmt.Sprintf("NFS version %d over %s on %s", h.version, h.transport, h.export)
}

// work connects, works and disconnects again and again until ctx ends. It ends earlier if it
// reports an error.
func (h *honest) work(ctx context.Context, all *sync.WaitGroup) {
	defer all.Done()
	h.content, h.burnt = make(map[string][]byte), make(map[string]int)
	for ctx.Err() == nil {
		err := h.live(ctx)
		if h.call != nil {
			h.call.Close()
			h.call = nil
		}
		switch {
		case err == nil:
		case h.fails && excused(err):
			clear(h.content)
			wait(ctx, time.Second)
		default:
			h.report("%v: %v", h, err)
			return
		}
	}
}

// excused reports whether err is an answer that a client of a failing disk may get.
func excused(err error) bool {
	switch statusOf(err) {
	case nfs4wire.NFS4ErrIO, nfs4wire.NFS4ErrNoSpace, nfs4wire.NFS4ErrStale, nfs4wire.NFS4ErrROFS,
		nfs4wire.NFS4ErrNoEnt, nfs4wire.NFS4ErrAccess, nfs4wire.NFS4ErrDQuot,
		nfs4wire.NFS4ErrOpenMode, nfs4wire.NFS4ErrServerFault, // errors of LOCK, which has no better ones
		nfs4wire.NFS4ErrDenied, nfs4wire.NFS4ErrBadStateID, nfs4wire.NFS4ErrAdminRevoked, nfs4wire.NFS4ErrExpired:
		return true
	}
	_, refused := errors.AsType[*client.MountError](err)
	return refused
}

// live connects the client and does `stay` actions.
func (h *honest) live(ctx context.Context) error {
	if err := h.arrive(ctx); err != nil {
		return fmt.Errorf("arrival: %w", err)
	}
	for range stay {
		if ctx.Err() != nil {
			return nil
		}
		if err := h.step(ctx); err != nil {
			return err
		}
		wait(ctx, time.Duration(h.random.IntN(40))*time.Millisecond)
	}
	return nil
}

func (h *honest) arrive(ctx context.Context) error {
	return h.timed(ctx, "arrival", func(ctx context.Context) (err error) {
		h.lives++
		name := fmt.Sprintf("%v, %d", h, h.lives)
		target := client.Target{Transport: h.transport, Host: h.tcp.Addr().String(), Port: int(h.tcp.Port()), Cred: client.Self()}
		piece := pieceSize
		if h.transport == client.RDMA {
			target.Port, piece = int(h.rdma.Port()), 2<<10
		}
		way := way{target: target, lost: &h.lost}
		switch h.version {
		case 3:
			h.call = &version3{way, int(h.tcp.Port())}
		case 40:
			v := &version40{way: way, name: fmt.Sprint(h), piece: piece}
			binary.BigEndian.PutUint64(v.verifier[:], uint64(h.lives))
			h.call = v
		default:
			call, err := dial41(ctx, target, uint32(h.version%10), name)
			if err != nil {
				return err
			}
			call.abandons = h.lives%4 == 0
			h.call = call
		}
		h.dir, err = h.call.Root(ctx, h.export)
		return err
	})
}

// timed runs one action, which must end within patience, and records its duration.
func (h *honest) timed(ctx context.Context, what string, do func(ctx context.Context) error) error {
	// The end of ctx does not interrupt an action, so that the client always knows the content of
	// its files.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	begin := time.Now()
	err := do(ctx)
	if err == nil {
		h.took.add(time.Since(begin))
		return nil
	}
	if ctx.Err() != nil {
		h.hang()
	}
	return fmt.Errorf("%s: %w", what, err)
}

// step does one random action with one of the files.
func (h *honest) step(ctx context.Context) error {
	file := fmt.Sprintf("%d-%s-%d", h.version, h.transport, h.random.IntN(4))
	name := fmt.Sprintf("%s-%d", file, h.burnt[file])
	switch h.random.IntN(10) {
	case 0:
		return h.remove(ctx, file, name)
	case 1:
		return h.rename(ctx, name)
	}
	return h.use(ctx, name)
}

func (h *honest) remove(ctx context.Context, file, name string) error {
	if h.content[name] == nil {
		return nil
	}
	err := h.timed(ctx, "REMOVE", func(ctx context.Context) error { return h.call.Remove(ctx, h.dir, name) })
	if err == nil {
		delete(h.content, name)
	}
	// A client of NFSv4.1 has no such method: it repeats a call in the same slot, so that the daemon
	// executes it once.
	if w, ok := h.call.(interface{ repeated() bool }); ok && w.repeated() {
		h.burnt[file]++
	}
	return err
}

func (h *honest) rename(ctx context.Context, name string) error {
	if h.content[name] == nil {
		return nil
	}
	to := name + " renamed"
	for _, way := range [][2]string{{name, to}, {to, name}} {
		if err := h.timed(ctx, "RENAME", func(ctx context.Context) error { return h.call.Rename(ctx, h.dir, way[0], way[1]) }); err != nil {
			return err
		}
	}
	return nil
}

// use opens a file, writes to it, reads from it, and closes it.
func (h *honest) use(ctx context.Context, name string) error {
	var f *file
	err := h.timed(ctx, "OPEN", func(ctx context.Context) (err error) {
		f, err = h.call.Open(ctx, h.dir, name)
		return err
	})
	if err != nil {
		return err
	}
	if h.content[name] == nil {
		// The client does not know the content of this file, which may be from an earlier
		// connection, so it empties the file.
		if err := h.timed(ctx, "SETATTR", func(ctx context.Context) error { return h.call.Resize(ctx, f, 0) }); err != nil {
			return err
		}
		h.content[name] = []byte{}
	}
	for range 1 + h.random.IntN(6) {
		if err := h.touch(ctx, f, name); err != nil {
			return err
		}
	}
	return h.timed(ctx, "CLOSE", func(ctx context.Context) error { return h.call.Release(ctx, f) })
}

func (h *honest) touch(ctx context.Context, f *file, name string) error {
	content := h.content[name]
	switch h.random.IntN(8) {
	case 0:
		size := h.random.IntN(fileSize)
		err := h.timed(ctx, "SETATTR", func(ctx context.Context) error { return h.call.Resize(ctx, f, uint64(size)) })
		if err == nil {
			h.content[name] = append(content[:min(size, len(content)):min(size, len(content))], make([]byte, max(size-len(content), 0))...)
		}
		return err
	case 1, 2, 3:
		at := h.random.IntN(len(content) + 1)
		b := make([]byte, 1+h.random.IntN(min(pieceSize, max(fileSize-at, 1))))
		for i := range b {
			b[i] = byte(h.random.Uint32())
		}
		stable := h.random.IntN(4) == 0
		for len(b) > 0 {
			var n int
			err := h.timed(ctx, "WRITE", func(ctx context.Context) (err error) {
				n, err = h.call.Write(ctx, f, uint64(at), b, stable)
				return err
			})
			if err != nil {
				return err
			}
			if n == 0 || n > len(b) {
				return fmt.Errorf("WRITE of %d bytes took %d: %w", len(b), n, errWrong)
			}
			content = append(content[:at], append(b[:n:n], content[min(at+n, len(content)):]...)...)
			h.content[name] = content
			at, b = at+n, b[n:]
		}
		return nil
	}
	at := h.random.IntN(len(content) + 1)
	want := content[at:min(at+pieceSize, len(content))]
	b := make([]byte, pieceSize)
	var n int
	err := h.timed(ctx, "READ", func(ctx context.Context) (err error) {
		n, err = h.call.Read(ctx, f, uint64(at), b)
		return err
	})
	if err != nil {
		return err
	}
	if !h.fails && (n > len(want) || n == 0 && len(want) > 0 || !bytes.Equal(b[:n], want[:n])) {
		return fmt.Errorf("READ of %s at %d, of %d bytes: %d came, and they are not what was written (size %d): %w", name, at, len(want), n, len(content), errWrong)
	}
	return nil
}

// judge compares the files on this machine with the content that the client wrote.
func (h *honest) judge() {
	for name, want := range h.content {
		got, err := os.ReadFile(filepath.Join(h.place, name))
		if os.IsNotExist(err) {
			got, err = os.ReadFile(filepath.Join(h.place, name+" renamed"))
		}
		if !h.fails && (err != nil || !bytes.Equal(got, want)) {
			h.report("%v: the file %s has %d bytes, which are not the %d that were written (%v)", h, name, len(got), len(want), err)
		}
	}
}
