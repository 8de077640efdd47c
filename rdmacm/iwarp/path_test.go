package iwarp

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/rawpeer"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
	"github.com/nfsrdmad/nfsrdmad/test/await"
)

const ownNetwork = "IWARP_OWN_NETWORK"

// inOwnNetwork runs the calling test in a process whose network is its own: loopback, with the MTU
// mtu. In that process it returns true.
func inOwnNetwork(t *testing.T, mtu int) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a network of its own takes user 0")
	}
	if os.Getenv(ownNetwork) == t.Name() {
		setLoopback(t, mtu)
		return true
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), ownNetwork+"="+t.Name())
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// setLoopback switches loopback on, with the MTU mtu.
func setLoopback(t *testing.T, mtu int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	ifreq.SetUint32(uint32(mtu))
	set := func(request uintptr) {
		t.Helper()
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(ifreq))); e != 0 {
			t.Fatal(e)
		}
	}
	set(unix.SIOCSIFMTU)
	ifreq.SetUint16(unix.IFF_UP)
	set(unix.SIOCSIFFLAGS)
}

// IW-324: when the MTU of the path falls, FPDUs that fit into one segment become shorter, so that they
// still do.
func TestSegmentsBecomeShorter(t *testing.T) {
	const mtu = 1500
	if !inOwnNetwork(t, 9000) {
		return
	}
	l := listen(t, provider(t, Config{CRC: CRCOn}))
	raw, s, _ := passiveTo(t, rawpeer.Dial(t, l.Addr()), l, rawpeer.LinuxRequest(), nil)
	raw.WriteFPDU(rawpeer.Ready())
	payload := make([]byte, remeasureBytes)
	// longest returns the length of the longest FPDU of a long Write.
	longest := func() (most int) {
		back := post(s.Conn, write(1, 2, payload))
		for last := false; !last; {
			f := raw.ReadOp(wire.Write)
			most, last = max(most, wire.FPDUSize(len(f.ULPDU))), f.Last
		}
		good(t, back)
		return most
	}
	if most := longest(); most < 8000 {
		t.Fatalf("FPDUs of %d bytes before", most)
	}
	setLoopback(t, mtu)
	await.Until(t, "FPDUs fit into a segment", func() bool { return longest() <= mtu-40 })
}

// Each way to send begins to watch the peer, if the connection was idle before.
func TestSendingWatchesThePeer(t *testing.T) {
	for name, sends := range map[string]func(c rdmacm.Conn){
		"Post":      func(c rdmacm.Conn) { post(c, send([]byte("text"))) },
		"SendShort": func(c rdmacm.Conn) { c.SendShort([][]byte{[]byte("text")}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			raw, s := active(t, Config{CRC: CRCOff})
			looks := func() bool { return s.Conn.life.watch.armed.Load() }
			s.Conn.life.look() // the first check finds nothing to watch
			await.Until(t, "the idle connection is not watched", func() bool { return !looks() })
			sends(s.Conn)
			if raw.ReadMessage(wire.Send); !looks() {
				t.Error("the peer is not watched")
			}
		})
	}
}

// A connection ends although a Done is under way meanwhile, on another goroutine.
func TestEndDuringADone(t *testing.T) {
	_, s := active(t, Config{CRC: CRCOff})
	s.Conn.tx.refuse() // so that Done runs on the goroutine that posts
	inside, release := make(chan struct{}), make(chan struct{})
	go s.Post(&rdmacm.Chain{Work: []rdmacm.Work{send([]byte("text"))}, Done: func(*rdmacm.Chain, error, int) {
		close(inside)
		<-release
	}})
	wait(t, inside)
	go s.Abort(nil)
	await.Until(t, "the end waits for the Done", func() bool {
		// flushAll sets flushErr, and keeps mu until it waits.
		s.Conn.tx.mu.Lock()
		defer s.Conn.tx.mu.Unlock()
		return s.Conn.tx.flushErr != nil
	})
	close(release)
	wait(t, s.Conn.Done())
}
