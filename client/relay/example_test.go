package relay_test

import (
	"log"
	"net"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/client/relay"
)

// A relay lets clients on this machine that support only TCP use a server over RDMA.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:2049")
	if err != nil {
		log.Fatal(err)
	}
	r, err := relay.New(relay.Config{
		Target: client.Target{Transport: client.RDMA, Host: "server.example.org"},
		Port:   2049,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	log.Print(r.Serve(l))
}
