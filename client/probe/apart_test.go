package probe_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	gonfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
	"github.com/nfsrdmad/nfsrdmad/test/testserver"
)

// probed serves each connection by serve, and returns what probe says of that server.
func probed(t *testing.T, serve func(l net.Listener)) probe.Listener {
	l, err := net.Listen("tcp", testserver.Loopback.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l)
	r := probe.Run(testserver.Within(t), probe.Config{
		Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Transports: []client.Transport{client.TCP},
	})
	return r.Transports[0]
}

// each accepts connections and serves them by serve.
func each(serve func(c net.Conn)) func(l net.Listener) {
	return func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}
}

// A fault of another program does not hide that a server serves NFS: go-nfs sends malformed refusals,
// and answers NULL of each version of a program.
func TestProbeOfGoNFS(t *testing.T) {
	dir := t.TempDir()
	x := probed(t, func(l net.Listener) {
		_ = gonfs.Serve(l, helpers.NewCachingHandler(helpers.NewNullAuthHandler(osfs.New(dir)), 64))
	})
	if !x.NFS || len(x.Programs) == 0 || len(x.Programs[0].Versions) != 1 || x.Programs[0].Versions[0] != 3 || !x.Programs[0].Unchecked {
		t.Errorf("NFS %v, fault %q (%s), programs %+v", x.NFS, x.Fault, x.Detail, x.Programs)
	}
}

// A server of NFS version 3 that ends the connection on each call of another program.
func TestProbeOfAServerThatEndsConnections(t *testing.T) {
	x := probed(t, each(func(c net.Conn) {
		for {
			var mark [4]byte
			if _, err := io.ReadFull(c, mark[:]); err != nil {
				return
			}
			m := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
			if _, err := io.ReadFull(c, m); err != nil {
				return
			}
			program, version := binary.BigEndian.Uint32(m[12:]), binary.BigEndian.Uint32(m[16:])
			if program != 100003 {
				return
			}
			reply := make([]byte, 28)
			copy(reply[4:8], m[:4])
			binary.BigEndian.PutUint32(reply[8:], 1)
			if version != 3 {
				binary.BigEndian.PutUint32(reply[24:], 2)
				reply = append(reply, 0, 0, 0, 3, 0, 0, 0, 3)
			}
			binary.BigEndian.PutUint32(reply, 1<<31|uint32(len(reply)-4))
			_, _ = c.Write(reply)
		}
	}))
	if !x.NFS || x.Fault != "" {
		t.Errorf("NFS %v, fault %q (%s), programs %+v", x.NFS, x.Fault, x.Detail, x.Programs)
	}
	faults := 0
	for _, p := range x.Programs {
		if p.Fault != "" {
			faults++
		}
	}
	if faults != 5 {
		t.Errorf("%d programs have a fault, not 5: %+v", faults, x.Programs)
	}
}

// probe shows what a server sent that does not speak RPC.
func TestProbeShowsWhatIsNoRPC(t *testing.T) {
	x := probed(t, each(func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	}))
	if x.NFS || !strings.Contains(x.Fault, "no record of RPC") || !strings.Contains(x.Detail, "HTTP/1.1 400") {
		t.Errorf("NFS %v, fault %q, detail %q", x.NFS, x.Fault, x.Detail)
	}
}
