package server_test

import (
	"bytes"
	big "encoding/binary"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpcbind"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
)

// A lockPeer locks as the lock managers of macOS and BSD do: from one UDP socket, by calls that are answered by calls to
// another UDP socket, whose port its rpcbind tells.
type lockPeer struct {
	t           *testing.T
	calls, hear *net.UDPConn
	server      netip.AddrPort
	file        []byte
	xid         uint32
}

func newLockPeer(t *testing.T, server netip.AddrPort, file []byte) *lockPeer {
	t.Helper()
	at := ownLoopback()
	rpcbindAt, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, rpcbind.Port)))
	if err != nil {
		t.Skipf("the test plays an rpcbind: %v", err)
	}
	t.Cleanup(func() { rpcbindAt.Close() })
	p := &lockPeer{t: t, calls: udpFrom(t, at, true), hear: udpFrom(t, at, false), server: server, file: file}
	go func() {
		for {
			conn, err := rpcbindAt.Accept()
			if err != nil {
				return
			}
			go p.tellsPort(conn)
		}
	}()
	return p
}

// tellsPort answers each call on a connection by the address of p.hear.
func (p *lockPeer) tellsPort(conn net.Conn) {
	defer conn.Close()
	for {
		var mark [4]byte
		if _, err := io.ReadFull(conn, mark[:]); err != nil {
			return
		}
		call := make([]byte, big.BigEndian.Uint32(mark[:])&^(1<<31))
		if _, err := io.ReadFull(conn, call); err != nil {
			return
		}
		w := xdr.NewWriter(make([]byte, 0, 256))
		w.Uint32(0) // the record's mark, set below
		w.FixedOpaque(call[:4])
		for _, word := range []uint32{1, 0, 0, 0, 0} { // REPLY, MSG_ACCEPTED, AUTH_NONE without a body, SUCCESS
			w.Uint32(word)
		}
		w.String(rpcbind.UniversalAddress(p.hear.LocalAddr().(*net.UDPAddr).AddrPort()))
		record := w.Bytes()
		big.BigEndian.PutUint32(record, 1<<31|uint32(len(record)-4))
		if _, err := conn.Write(record); err != nil {
			return
		}
	}
}

func (p *lockPeer) lock(svid int32) nlm.Lock4 {
	return nlm.Lock4{CallerName: []byte("mac.local"), FileHandle: p.file, OH: []byte("mac"), SVID: svid, Length: 10}
}

// send sends a call of version 4, and awaits its reply, which is empty.
func (p *lockPeer) send(procedure nlm.Procedure, args interface{ Encode(*xdr.Writer) }) {
	p.t.Helper()
	p.xid++
	h := rpc.CallHeader{XID: p.xid, Program: nlm.Program, Version: nlm.Version, Procedure: uint32(procedure)}
	h.Cred, _ = rpc.AuthSysCred(0, "mac", 1000, 1000, nil)
	if _, err := p.calls.WriteTo(rpctest.CallMessage(h, args.Encode), net.UDPAddrFromAddrPort(p.server)); err != nil {
		p.t.Fatal(err)
	}
	if reply := p.receive(p.calls); len(reply) != 24 || big.BigEndian.Uint32(reply) != p.xid || big.BigEndian.Uint32(reply[20:]) != 0 {
		p.t.Fatalf("the reply to %v: %x", procedure, reply)
	}
}

// receive returns the next datagram, which comes from the port of the server.
func (p *lockPeer) receive(at *net.UDPConn) []byte {
	p.t.Helper()
	_ = at.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 8192)
	n, from, err := at.ReadFromUDPAddrPort(buf)
	if err != nil {
		p.t.Fatal(err)
	}
	if from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port()); from != p.server {
		p.t.Fatalf("a datagram from %v", from)
	}
	return buf[:n]
}

// hears awaits a call of the server, and decodes its arguments.
func (p *lockPeer) hears(procedure nlm.Procedure, args interface{ Decode(*xdr.Decoder) }) {
	p.t.Helper()
	message := p.receive(p.hear)
	want := big.BigEndian.AppendUint32(big.BigEndian.AppendUint32(big.BigEndian.AppendUint32(nil, nlm.Program), nlm.Version), uint32(procedure))
	if len(message) < 40 || !bytes.Equal(message[12:24], want) {
		p.t.Fatalf("called %x, and not by %v", message, procedure)
	}
	d := xdr.NewDecoder(message[24:])
	for range 2 { // credential and verifier
		d.Skip(4)
		d.Opaque(rpc.MaxAuthBytes)
	}
	if args.Decode(d); d.Finish() != nil {
		p.t.Fatalf("the arguments of %v do not decode: %x", procedure, message)
	}
}

// A client that locks over UDP, as macOS does, gets the result of each call at the port that its rpcbind names, from the
// port that it has called. It is told of a lock for which it waits (NLM-53).
func TestLocksOverUDP(t *testing.T) {
	d := start(t, "insecure")
	_, _, file := d.lockable(t)
	p := newLockPeer(t, d.tcp, file)
	var res nlm.Res4
	want := func(procedure nlm.Procedure, cookie string, stat nlm.Stat4) {
		t.Helper()
		if p.hears(procedure, &res); string(res.Cookie) != cookie || res.Stat != stat {
			t.Fatalf("%v: %q, %v", procedure, res.Cookie, res.Stat)
		}
	}
	p.send(nlm.ProcLockMsg, &nlm.LockArgs4{Cookie: []byte("one"), Exclusive: true, Lock: p.lock(1)})
	want(nlm.ProcLockRes, "one", nlm.Granted)
	p.send(nlm.ProcLockMsg, &nlm.LockArgs4{Cookie: []byte("two"), Exclusive: true, Block: true, Lock: p.lock(2)})
	want(nlm.ProcLockRes, "two", nlm.Blocked)
	var test nlm.TestRes4
	p.send(nlm.ProcTestMsg, &nlm.TestArgs4{Cookie: []byte("three"), Exclusive: true, Lock: p.lock(3)})
	if p.hears(nlm.ProcTestRes, &test); test.Reply.Stat != nlm.Denied || test.Reply.Holder.SVID != 1 {
		t.Errorf("TEST_RES: %+v", test)
	}
	p.send(nlm.ProcUnlockMsg, &nlm.UnlockArgs4{Cookie: []byte("four"), Lock: p.lock(1)})
	var granted nlm.TestArgs4
	// The result and the word of the lock come from two goroutines.
	first := p.receive(p.hear)
	second := p.receive(p.hear)
	if big.BigEndian.Uint32(first[20:]) != uint32(nlm.ProcUnlockRes) {
		first, second = second, first
	}
	if got := big.BigEndian.Uint32(first[20:]); got != uint32(nlm.ProcUnlockRes) {
		t.Fatalf("procedure %d, and no UNLOCK_RES", got)
	}
	dec := xdr.NewDecoder(second[24:])
	for range 2 {
		dec.Skip(4)
		dec.Opaque(rpc.MaxAuthBytes)
	}
	if granted.Decode(dec); dec.Finish() != nil || big.BigEndian.Uint32(second[20:]) != uint32(nlm.ProcGrantedMsg) || granted.Lock.SVID != 2 {
		t.Fatalf("%x is no GRANTED_MSG: %+v", second, granted)
	}
	p.send(nlm.ProcGrantedRes, &nlm.Res4{Cookie: granted.Cookie, Stat: nlm.Granted})
	p.send(nlm.ProcLockMsg, &nlm.LockArgs4{Cookie: []byte("five"), Exclusive: true, Lock: p.lock(3)})
	want(nlm.ProcLockRes, "five", nlm.Denied)
}
