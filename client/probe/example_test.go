package probe_test

import (
	"context"
	"os"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/probe"
)

func Example() {
	found := probe.Run(context.Background(), probe.Config{
		Host: "server.example.org", Transports: []client.Transport{client.RDMA, client.TCP},
	})
	found.Print(os.Stdout)
}
