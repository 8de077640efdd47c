package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// The example reads a file over RDMA, by the path of its export and the file's path in it.
func Example() {
	ctx := context.Background()
	c, err := client.Dial(ctx, client.Target{Transport: client.RDMA, Host: "server.example.org", Cred: client.Self()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	root, err := c.MountRoot(ctx, "/srv/data", 0)
	if err != nil {
		log.Fatal(err)
	}
	file, err := c.NFS3().Walk(ctx, root, "reports/today")
	if err != nil {
		log.Fatal(err)
	}
	data := make([]byte, 1<<20)
	n, eof, err := c.NFS3().Read(ctx, file, 0, data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes, the end of the file: %v\n", n, eof)
}

// The example makes and writes a file by NFS version 4.2, over two RDMA connections.
func ExampleDialSession() {
	ctx := context.Background()
	s, err := client.DialSession(ctx, client.SessionConfig{
		Target:      client.Target{Transport: client.RDMA, Host: "server.example.org", Cred: client.Self()},
		Connections: 2,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	n := s.NFS4()
	dir, err := n.Walk(ctx, nil, "/srv/data/reports")
	if err != nil {
		log.Fatal(err)
	}
	file, err := n.Open(ctx, client.Open4{
		Dir: dir, Name: "today", Owner: []byte("example"), Access: nfs4wire.Open4ShareAccessWrite,
		Create: &nfs4wire.Createhow4{Mode: nfs4wire.Guarded4, Createattrs: client.ModeAttribute(0o644)},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := n.Write(ctx, file.File, file.StateID, 0, []byte("all is well\n"), nfs4wire.FileSync4); err != nil {
		log.Fatal(err)
	}
	if err := n.CloseFile(ctx, file.File, file.StateID); err != nil {
		log.Fatal(err)
	}
}
