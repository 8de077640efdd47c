package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdmad/nfsrdmad/client"
)

// A file is read over RDMA, by the path of its export and its path in there.
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
