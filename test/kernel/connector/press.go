package main

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/providers"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs3wire"
)

// atATime is the number of connections to each server that are set up at a time.
const atATime = 4

// A pressure is what becomes of the connections.
type pressure struct {
	provider                 rdmacm.Provider
	tried, answered, refused atomic.Int64
	last                     atomic.Pointer[error] // the last reason why a connection was refused
}

func press(servers, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	var p pressure
	if p.provider, err = providers.Open(providers.Verbs, providers.Config{}); err != nil {
		return err
	}
	all := strings.Split(servers, ",")
	for _, to := range all {
		addr, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		places := make(chan struct{}, n)
		for range atATime {
			go p.on(addr, places)
		}
	}
	for wanted := int64(n * len(all)); p.tried.Load() < wanted; {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Printf("tried %d connections: %d calls were answered, %d connections refused or lost", p.tried.Load(), p.answered.Load(), p.refused.Load())
	if last := p.last.Load(); last != nil {
		fmt.Printf(", the last one: %v", *last)
	}
	fmt.Println()
	select {}
}

// on opens connections. Each takes one of the places until it has ended.
func (p *pressure) on(addr netip.AddrPort, places chan struct{}) {
	target := client.Target{Transport: client.RDMA, Host: addr.Addr().String(), Port: int(addr.Port()), Provider: p.provider, Depth: 1}
	for {
		places <- struct{}{}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		c, err := client.Dial(ctx, target)
		if err == nil {
			if err = c.Null(ctx, nfs3wire.Program, nfs3wire.Version); err != nil {
				c.Close()
			}
		}
		cancel()
		p.tried.Add(1)
		if err != nil {
			p.refused.Add(1)
			p.last.Store(&err)
			<-places
			continue
		}
		p.answered.Add(1)
		go func() {
			for !c.Lost() {
				time.Sleep(50 * time.Millisecond)
			}
			c.Close()
			<-places
		}()
	}
}
