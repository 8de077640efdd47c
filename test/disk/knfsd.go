package disk

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// A knfsd is Linux's own server in a guest, with the guest's file system on the disk. The guest
// accesses the Device's file by hostfs, with a loop device over it. So there is one cache more
// than with the daemon: the guest's writes reach the Device when the guest flushes. The guest
// sees a failed write as a failed flush, without the sector, so the test leaves out faults of
// single sectors.
type knfsd struct {
	*lab.Guest
	network    *lab.Network
	nfs, mount net.Listener // listeners on this machine, whose connections are relayed to the guest
	relayed    sync.WaitGroup
}

const (
	knfsdDir   = "/srv/disk"
	knfsdGuest = 3
	// serveLoop is the guest's script. Its arguments are IMAGE and OPTIONS.
	serveLoop = `mkdir -p ` + knfsdDir + `
must mount -o "loop,$2" "$1" ` + knfsdDir + `
kernel_server ` + knfsdDir + `
waiting_for 120 listening 2049
waiting_for 120 listening 20048
event serving
await stop`
)

// startKnfsd unmounts the disk on this machine and serves it from a guest, which mounts it.
func startKnfsd(t testing.TB, network *lab.Network, f *filesystem, m *mounted, d *Device) server {
	t.Helper()
	m.unmount(d)
	k := &knfsd{network: network}
	k.Guest = lab.Boot(t, network, lab.Options{Address: knfsdGuest, Writable: []string{filepath.Dir(d.Image)}},
		serveLoop, d.Image, f.options)
	k.Await("serving")
	k.nfs, k.mount = k.relay(t, 2049), k.relay(t, 20048)
	return k
}

// relay listens on this machine and relays connections to a port of the guest.
func (k *knfsd) relay(t testing.TB, port int) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k.relayed.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			k.relayed.Go(func() { k.join(near, port) })
		}
	})
	return l
}

func (k *knfsd) join(near net.Conn, port int) {
	defer near.Close()
	far, err := dialIn(k.network, netip.AddrPortFrom(netip.MustParseAddr(k.Address()), uint16(port)))
	if err != nil {
		return // the caller sees that its connection ends
	}
	defer far.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // ends when either connection ends
			near.Close()
			far.Close()
		})
	}
	both.Wait()
}

// dialIn connects from within a guest network's namespace. Its thread enters the namespace and
// leaves it again. The thread must not end, because the kernel would kill a guest that was started
// on it.
func dialIn(n *lab.Network, to netip.AddrPort) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer back.Close()
	there, err := os.Open(filepath.Join("/run/netns", n.Name()))
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if again := unix.Setns(int(back.Fd()), unix.CLONE_NEWNET); again != nil {
		panic(again) // other goroutines must not run on this thread, which is in the wrong namespace
	}
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(s), to.String())
	defer socket.Close()
	patient := unix.Timeval{Sec: int64(patience.Seconds())}
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patient); err != nil {
		return nil, err
	}
	if err := unix.Connect(s, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
		return nil, err
	}
	return net.FileConn(socket)
}

// Dial connects over TCP, because siw in a guest loses the first message of some connections.
func (k *knfsd) Dial(ctx context.Context, version int, _ bool) (caller, client.Handle, error) {
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	export := knfsdDir
	if version != 3 {
		export = "/" // the root of the guest's NFSv4 name space
	}
	target := client.Target{Transport: client.TCP, Host: "127.0.0.1", Port: port(k.nfs), Cred: client.Self()}
	return dial(ctx, target, version, export, port(k.mount))
}

func (k *knfsd) Alive() bool { return !k.Ended() }

func (k *knfsd) Said() string { return k.Output() }

// Kill ends the guest and the relays.
func (k *knfsd) Kill() {
	k.Guest.Kill()
	k.nfs.Close()
	k.mount.Close()
	k.relayed.Wait()
}
