package server_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	nlm "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nlm4wire"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nsmwire"
)

// A client that has restarted says so over UDP, from a port of its system, and loses its locks. NFS and MOUNT
// are not served there, and no answer goes to what is no call.
func TestStatusMonitorOverUDP(t *testing.T) {
	d := start(t, "insecure")
	ctx := testContext(t)
	c, _, file := d.lockable(t)
	lock := func(svid int32) nlm.Stat4 {
		t.Helper()
		args := nlm.LockArgs4{Exclusive: true, Lock: nlm.Lock4{CallerName: []byte("a"), FileHandle: nlm.Object(file), SVID: svid}}
		stat, err := callNLM(ctx, c, nlm.ProcLock, &args)
		if err != nil {
			t.Fatal(err)
		}
		return stat
	}
	if got := lock(1); got != nlm.Granted {
		t.Fatal(got)
	}
	probe, err := net.Dial("tcp", d.tcp.String())
	if err != nil {
		t.Fatal(err)
	}
	from := probe.LocalAddr().(*net.TCPAddr).AddrPort().Addr()
	probe.Close()
	system, user := udpFrom(t, from, true), udpFrom(t, from, false)
	at := net.UDPAddrFromAddrPort(d.tcp)
	send := func(from *net.UDPConn, message []byte) {
		t.Helper()
		if _, err := from.WriteTo(message, at); err != nil {
			t.Fatal(err)
		}
	}
	xid := uint32(0)
	// exchange sends a call and returns the reply. The server answers in the order of arrival.
	exchange := func(from *net.UDPConn, program, procedure uint32, args func(*xdr.Writer)) []byte {
		t.Helper()
		xid++
		send(from, rpctest.CallMessage(rpc.CallHeader{XID: xid, Program: program, Version: 1, Procedure: procedure}, args))
		_ = from.SetReadDeadline(time.Now().Add(30 * time.Second))
		buf := make([]byte, 4096)
		n, sender, err := from.ReadFromUDPAddrPort(buf)
		switch {
		case err != nil:
			t.Fatal(err)
		case netip.AddrPortFrom(sender.Addr().Unmap(), sender.Port()) != d.tcp:
			t.Fatalf("a reply from %v", sender)
		case n < 24 || !bytes.Equal(buf[:4], []byte{0, 0, 0, byte(xid)}):
			t.Fatalf("reply %x", buf[:n])
		}
		return buf[20:n] // the accept status, and what follows
	}
	notify := nsmwire.Status{Name: []byte("a"), State: 7}
	exchange(user, nsmwire.Program, uint32(nsmwire.ProcNotify), notify.Encode)
	if got := lock(2); got != nlm.Denied {
		t.Errorf("after the word of a user: %v", got)
	}
	for _, noise := range [][]byte{nil, []byte("noise"), bytes.Repeat([]byte{255}, 1000), make([]byte, 9000), {0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0}} {
		send(system, noise)
	}
	if got := exchange(system, nsmwire.Program, uint32(nsmwire.ProcNull), nil); !bytes.Equal(got, make([]byte, 4)) {
		t.Errorf("NULL: %x", got)
	}
	for _, other := range []uint32{100003, 100005} {
		if got := exchange(system, other, 0, nil); !bytes.Equal(got, []byte{0, 0, 0, byte(rpc.AcceptProgUnavail)}) {
			t.Errorf("program %d: %x", other, got)
		}
	}
	notify.State = 9
	if got := exchange(system, nsmwire.Program, uint32(nsmwire.ProcNotify), notify.Encode); !bytes.Equal(got, make([]byte, 4)) {
		t.Errorf("NOTIFY: %x", got)
	}
	if got := lock(2); got != nlm.Granted {
		t.Errorf("after the client's word: %v", got)
	}
}

// udpFrom returns a UDP socket of an address, with a port of the system (below 1024) or another one.
func udpFrom(t *testing.T, a netip.Addr, system bool) *net.UDPConn {
	t.Helper()
	for port := uint16(1023); port > 600; port-- {
		if !system {
			port = 0
		}
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, port)))
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if !system {
			t.Fatal(err)
		}
	}
	t.Skip("needs a port below 1024")
	return nil
}
