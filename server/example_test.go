package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/util"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/willscott/go-nfs/helpers"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/server"
	"github.com/nfsrdmad/nfsrdmad/server/config"
	vfsmem "github.com/nfsrdmad/nfsrdmad/vfs/mem"
)

// A program serves its own files over RDMA and over TCP, and reads one over RDMA.
func ExampleNewHandler() {
	files := memfs.New()
	util.WriteFile(files, "hello.txt", []byte("hello"), 0o644)
	handler := helpers.NewCachingHandler(helpers.NewNullAuthHandler(files), 1024)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := server.NewHandler(listener, handler, server.HandlerOptions{
		RDMA: []config.Listen{{Addr: netip.MustParseAddrPort("127.0.0.1:0")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()

	fmt.Println(read(ctx, s.RDMAAddrs()[0], listener.Addr().(*net.TCPAddr).Port))
	stop()
	fmt.Println(<-ended)
	// Output:
	// hello <nil>
	// <nil>
}

// read reads the file over RDMA. It calls MOUNT on the TCP port.
func read(ctx context.Context, rdma netip.AddrPort, mountPort int) (string, error) {
	c, err := client.Dial(ctx, client.Target{
		Transport: client.RDMA, Host: rdma.Addr().String(), Port: int(rdma.Port()), Cred: client.Self(),
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	root, err := c.MountRoot(ctx, "/", mountPort)
	if err != nil {
		return "", err
	}
	nfs := c.NFS3()
	file, _, err := nfs.Lookup(ctx, root, "hello.txt")
	if err != nil {
		return "", err
	}
	content := make([]byte, 16)
	n, _, err := nfs.Read(ctx, file, 0, content)
	return string(content[:n]), err
}

// A program has the metrics of its server in its own registry, and serves them beside its own.
func ExampleFileSystemOptions_metrics() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	s, err := server.NewFileSystem(listener, vfsmem.New(vfsmem.Options{}), server.FileSystemOptions{
		RDMA:    []config.Listen{{None: true}},
		Metrics: registry,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx) }()

	// A program would register this handler with its own HTTP server.
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "nfsrdmad_exports{") {
			fmt.Print(line)
		}
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// nfsrdmad_exports{state="kept"} 0
	// nfsrdmad_exports{state="not_served"} 0
	// nfsrdmad_exports{state="served"} 1
	// nfsrdmad_exports{state="stopped"} 0
	// <nil>
}
