package gss_test

import (
	"context"
	"fmt"
	"net"

	"github.com/nfsrdmad/nfsrdmad/mem"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss/gsstest"
	"github.com/nfsrdmad/nfsrdmad/rpc/rpctest"
	"github.com/nfsrdmad/nfsrdmad/rpc/xdr"
	"github.com/nfsrdmad/nfsrdmad/transport/tcp"
)

// A server and a client encrypt their calls and replies. This example uses a mechanism for tests.
// The mechanism of Kerberos is in package krb5.
func Example() {
	mechanism := gsstest.New()
	security := gss.New(gss.Config{
		Mechanisms: []gss.Mechanism{mechanism},
		Identify: func(principal string) (uid, gid uint32, groups []uint32, ok bool, err error) {
			return 1000, 100, nil, principal == "user@TEST", nil
		},
	})
	defer security.Close()
	pool, err := mem.NewPool(mem.Config{Ceiling: 16 << 20})
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	calls := rpc.NewServer(rpc.Config{Pool: pool})
	defer calls.Close()
	calls.Register(rpctest.NewProgram())
	calls.Protect(rpc.AuthGSS, security)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := tcp.NewServer(tcp.Config{RPC: calls, Pool: pool})
	defer server.Close()
	go server.Serve(l)

	conn, err := tcp.Dial(context.Background(), l.Addr().String(), tcp.DialConfig{})
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	client, err := gss.NewClient(context.Background(), conn, gss.ClientConfig{
		Mechanism: mechanism, Target: "nfs@server", Service: rpc.GSSPrivacy,
		Program: rpctest.Number, Version: rpctest.LowVersion,
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	x := rpctest.NewExchange(rpctest.ECHO, func(w *xdr.Writer) { w.String("hello") })
	err = rpc.Do(context.Background(), client, x, func(d *xdr.Decoder) error {
		fmt.Printf("%s\n", d.Opaque(100))
		return d.Finish()
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(security.Stats().Contexts, "context")
	// Output:
	// hello
	// 1 context
}
