package nfs3_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/test/await"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/local"
)

// While a disk is stuck, a client repeats its WRITEs. When the disk continues, the client gets
// the replies and writes new data to the same places. After that, no copy of an old WRITE may
// be executed, wherever it waited (RFC 1813 §4.5).
func TestRepeatedWriteDoesNotUndoALaterOne(t *testing.T) {
	t.Run("on the same connection", repeatOnTheSameConnection)
	for name, leave := range map[string]func(*net.TCPConn){
		"after a connection that a firewall forgot": func(*net.TCPConn) {},
		"after a connection with FIN": func(c *net.TCPConn) {
			c.CloseWrite()
			go io.Copy(io.Discard, c)
		},
		"after shutdown(SHUT_RDWR), as Linux has it": func(c *net.TCPConn) {
			c.CloseRead()
			c.CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) { repeatOnANewConnection(t, leave) })
	}
}

const repeatedSize = 4096 // of a WRITE, in bytes

// repeatOnTheSameConnection repeats calls as Linux does over TCP 60 seconds after a call.
// Another client keeps the disk busy.
func repeatOnTheSameConnection(t *testing.T) {
	const blocks = 48
	d := newStuckDisk(t, blocks)
	nc, other := d.dial(), d.dial()
	go io.Copy(io.Discard, other)
	for b := range blocks {
		d.write(nc, uint32(1000+b), b, 'o')
	}
	d.await("all calls are under way", func(st *rpc.Stats) bool { return st.InProgress == blocks })
	for b := range 100 {
		d.write(other, uint32(9000+b), blocks, 'x')
	}
	for b := range blocks {
		d.write(nc, uint32(1000+b), b, 'o')
	}
	d.await("all copies are here", func(st *rpc.Stats) bool { return st.ReplyCache.Joined == blocks })
	d.goOn()
	d.overwrite(nc, 0, blocks)
	d.await("nothing is under way", func(st *rpc.Stats) bool { return st.InProgress == 0 })
	d.expectNew(0, blocks)
}

// repeatOnANewConnection repeats calls as a client does after it has abandoned a connection. As
// many calls of the old connection are under way as are allowed. More wait in its socket, and
// the server reads them later.
func repeatOnANewConnection(t *testing.T, leave func(old *net.TCPConn)) {
	const blocks, from, to = 300, 100, 200 // from a call that the server has read to a call that it has not read
	d := newStuckDisk(t, blocks)
	old, now := d.dial(), d.dial()
	for b := range blocks {
		d.write(old, uint32(1000+b), b, 'o')
	}
	d.await("the connection is full", func(st *rpc.Stats) bool { return st.InProgress == 128 })
	leave(old.(*net.TCPConn))
	for b := from; b < to; b++ {
		d.write(now, uint32(1000+b), b, 'o')
	}
	d.await("all copies are here", func(st *rpc.Stats) bool { return st.InProgress == 128+to-from })
	d.goOn()
	d.overwrite(now, from, to)
	d.await("the daemon has read and served what it will of the old connection", func(st *rpc.Stats) bool {
		return st.InProgress == 0 && d.server.Stats().Connections == 1
	})
	d.expectNew(from, to)
}

// A stuckDisk is a server with one file on a disk. Writes wait until the disk continues, and
// then take a while.
type stuckDisk struct {
	vfs.FileSystem
	t      *testing.T
	dir    string
	file   wire.FileHandle3
	rpc    *rpc.Server
	server *tcp.Server
	at     string
	stuck  atomic.Bool
	thaw   chan struct{}
}

// Write implements vfs.FileSystem.
func (d *stuckDisk) Write(op *vfs.Op, h vfs.Handle, off uint64, data [][]byte, st vfs.Stability) (int, vfs.Stability, vfs.Change, error) {
	if op.Try {
		return 0, 0, vfs.Change{}, vfs.ErrWouldBlock
	}
	if d.stuck.Load() {
		<-d.thaw
	}
	for range 100 {
		runtime.Gosched() // let other goroutines run in between
	}
	return d.FileSystem.Write(op, h, off, data, st)
}

func newStuckDisk(t *testing.T, blocks int) *stuckDisk {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	fs, err := local.New(local.Config{Root: dir, StateDir: t.TempDir(), Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &stuckDisk{FileSystem: fs, t: t, dir: dir, thaw: make(chan struct{})}
	d.stuck.Store(true)
	e := &export.Export{Name: "/", FS: d, Options: export.Options{Squash: export.NoSquash}}
	table := export.NewTable([export.KeySize]byte{7})
	if err := table.Replace([]*export.Export{e}); err != nil {
		t.Fatal(err)
	}
	pool, err := mem.NewPool(mem.Config{Ceiling: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d.rpc = rpc.NewServer(rpc.Config{Pool: pool})
	d.rpc.Register(nfs3.New(table))
	d.server = tcp.NewServer(tcp.Config{RPC: d.rpc, Pool: pool})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go d.server.Serve(l)
	t.Cleanup(func() {
		if d.stuck.Load() {
			d.goOn()
		}
		d.server.Close()
		d.rpc.Close()
		fs.Close()
	})
	d.at = l.Addr().String()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, (blocks+1)*repeatedSize), 0o666); err != nil {
		t.Fatal(err)
	}
	var a vfs.Attr
	o, err := fs.Lookup(&vfs.Op{Cred: &vfs.Cred{}}, fs.Root(), []byte("f"), &a)
	if err != nil {
		t.Fatal(err)
	}
	d.file = wire.FileHandle3{Data: table.Seal(nil, e, o.Handle)}
	return d
}

func (d *stuckDisk) goOn() {
	d.stuck.Store(false)
	close(d.thaw)
}

func (d *stuckDisk) await(what string, holds func(st *rpc.Stats) bool) {
	d.t.Helper()
	await.Until(d.t, what, func() bool {
		st := d.rpc.Stats()
		return holds(&st)
	})
}

func (d *stuckDisk) dial() net.Conn {
	nc, err := net.Dial("tcp", d.at)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { nc.Close() })
	return nc
}

// write sends a WRITE of one block that is filled with fill.
func (d *stuckDisk) write(nc net.Conn, xid uint32, block int, fill byte) {
	cred, _ := rpc.AuthSysCred(0, "client", 0, 0, nil)
	m := rpctest.CallMessage(rpc.CallHeader{XID: xid, Program: wire.Program, Version: wire.Version, Procedure: uint32(wire.ProcWrite), Cred: cred}, func(w *xdr.Writer) {
		(&wire.Write3Args{FileHandle: d.file, Offset: uint64(block * repeatedSize), Count: repeatedSize, Stable: wire.Unstable,
			Data: xdr.Eligible{Data: bytes.Repeat([]byte{fill}, repeatedSize)}}).Encode(w)
	})
	if _, err := nc.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(m))), m...)); err != nil {
		d.t.Fatal(err)
	}
}

// overwrite reads the replies to the WRITEs of blocks. For each first reply it sends new data.
// It returns when all new data has been answered. Further replies to the same call do not
// count.
func (d *stuckDisk) overwrite(nc net.Conn, from, to int) {
	d.t.Helper()
	answered := make(map[uint32]bool)
	for newer := 0; newer < to-from; {
		xid := d.reply(nc)
		switch {
		case answered[xid]:
		case xid >= 2000:
			newer++
		default:
			d.write(nc, xid+1000, int(xid-1000), 'n')
		}
		answered[xid] = true
	}
}

// reply reads the answer to a successful WRITE.
func (d *stuckDisk) reply(nc net.Conn) (xid uint32) {
	d.t.Helper()
	nc.SetReadDeadline(time.Now().Add(await.Limit))
	var head [4]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		d.t.Fatal(err)
	}
	m := make([]byte, binary.BigEndian.Uint32(head[:])&^(1<<31))
	if _, err := io.ReadFull(nc, m); err != nil {
		d.t.Fatal(err)
	}
	if s := binary.BigEndian.Uint32(m[24:]); s != 0 {
		d.t.Fatalf("WRITE: status %d", s)
	}
	return binary.BigEndian.Uint32(m)
}

func (d *stuckDisk) expectNew(from, to int) {
	d.t.Helper()
	got, err := os.ReadFile(filepath.Join(d.dir, "f"))
	if err != nil {
		d.t.Fatal(err)
	}
	old := 0
	for b := from; b < to; b++ {
		if got[b*repeatedSize] != 'n' {
			old++
		}
	}
	if old > 0 {
		d.t.Errorf("%d of %d blocks hold the old data, although the newer WRITE was answered", old, to-from)
	}
}
