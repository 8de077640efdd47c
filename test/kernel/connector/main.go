// Command connector opens COUNT connections through librdmacm and libibverbs, all at once, and
// sends nothing over them. With "leave" it disconnects them and exits. With "stay" it prints
// "connected" and keeps them open until it is killed.
//
// With "press" it tries to have COUNT connections to each of the servers, replaces those that end, and
// makes a NULL call over each. It prints what has become of the connections when it has tried as many, and
// continues until it is killed.
//
//	connector ADDRESS:PORT COUNT leave|stay
//	connector ADDRESS:PORT,... COUNT press
package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
)

type silent struct{}

func (silent) Received(m *rdmacm.Recv) { m.Release() }
func (silent) Closed(error)            {}

func main() {
	to, count, what := os.Args[1], os.Args[2], os.Args[3]
	var err error
	if what == "press" {
		err = press(to, count)
	} else {
		err = run(to, count, what == "stay")
	}
	if err != nil {
		fmt.Println("connector:", err)
		os.Exit(1)
	}
}

func run(to, count string, stay bool) error {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	p, err := providers.Open(providers.Verbs, providers.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all := make([]rdmacm.Conn, n)
	var dialing errgroup.Group
	for i := range all {
		dialing.Go(func() (err error) {
			all[i], err = p.Dial(ctx, addr, rdmacm.ConnParam{Handler: silent{}, Receives: 8, MaxReceives: 8, ReceiveSize: 4096})
			return err
		})
	}
	if err := dialing.Wait(); err != nil {
		return err
	}
	if stay {
		fmt.Println("connected")
		select {}
	}
	for _, c := range all {
		c.Disconnect()
		<-c.Done()
	}
	return nil
}
