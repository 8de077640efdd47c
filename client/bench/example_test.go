package bench_test

import (
	"context"
	"log"
	"os"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

func Example() {
	result, err := bench.Run(context.Background(), bench.Config{
		Target:   client.Target{Transport: client.RDMA, Host: "server.example.org", Cred: client.Self()},
		Export:   "/srv/data",
		Workload: "randread", Size: 4096,
	})
	if err != nil {
		log.Fatal(err)
	}
	result.Print(os.Stdout)
}
