package main

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
)

// quiet is a Handler for a side that receives no messages.
type quiet struct{}

func (quiet) Received(r *rdmacm.Recv) { r.Release() }
func (quiet) Closed(error)            {}

// arrivals counts received Sends. When a Send arrives, all work that was posted before it has
// arrived too.
type arrivals struct {
	quiet
	got chan struct{}
}

func (a *arrivals) Received(r *rdmacm.Recv) {
	r.Release()
	a.got <- struct{}{}
}

// rnic is two connected queue pairs of the software RNIC.
type rnic struct {
	near, far rdmacm.Conn
	arrived   *arrivals
	free      chan *rdmacm.Chain
	failed    error
}

func (s *stage) newRNIC(crc iwarp.CRCMode) (*rnic, error) {
	p, err := iwarp.New(iwarp.Config{CRC: crc})
	if err != nil {
		return nil, err
	}
	l, err := p.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	r := &rnic{arrived: &arrivals{got: make(chan struct{}, 1<<16)}, free: make(chan *rdmacm.Chain, 8)}
	accepted := make(chan error, 1)
	go func() {
		req, err := l.Accept()
		if err == nil {
			r.far, err = req.Accept(rdmacm.ConnParam{Handler: r.arrived, Receives: 1 << 20, ReceiveSize: 64, InboundReads: 64})
		}
		accepted <- err
	}()
	if r.near, err = p.Dial(context.Background(), l.Addr(), rdmacm.ConnParam{Handler: quiet{}, OutboundReads: 64, Receives: 1, ReceiveSize: 64}); err != nil {
		return nil, err
	}
	if err := <-accepted; err != nil {
		return nil, err
	}
	s.atEnd(func() {
		r.near.Disconnect()
		<-r.near.Done()
		<-r.far.Done()
	})
	return r, nil
}

// transfer returns a function that runs n chains, at most cap(r.free) at a time. A chain has one
// work request. A chain with an RDMA Write also has a Send, because only a Send tells the
// receiver that the data has arrived.
func (r *rnic) transfer(op rdmacm.Op, local [][]byte, region rdmacm.Region) func(n int) error {
	one := make([]byte, 4)
	for i := range cap(r.free) {
		c := &rdmacm.Chain{Work: []rdmacm.Work{{
			Op: op, Local: [][]byte{local[i]}, Remote: rdmacm.Remote{STag: region.STag(), Offset: region.Offset() + uint64(i*mib)},
		}}}
		if op == rdmacm.OpWrite {
			c.Work = append(c.Work, rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{one}})
		}
		c.Done = func(c *rdmacm.Chain, err error, _ int) {
			if err != nil {
				r.failed = err
			}
			r.free <- c
		}
		r.free <- c
	}
	return func(n int) error {
		arrived := 0
		for range n {
			r.near.Post(<-r.free)
		}
		if op == rdmacm.OpWrite {
			for ; arrived < n; arrived++ {
				<-r.arrived.got
			}
			r.far.Provide(n, 64)
		}
		// All chains have completed when all are in r.free again.
		all := make([]*rdmacm.Chain, 0, cap(r.free))
		for range cap(r.free) {
			all = append(all, <-r.free)
		}
		for _, c := range all {
			r.free <- c
		}
		return r.failed
	}
}

// pieces returns n slices of `size` bytes each, in one block of memory, and the whole block.
func pieces(n, size int) (whole []byte, each [][]byte) {
	whole = make([]byte, n*size)
	for i := range n {
		each = append(each, whole[i*size:(i+1)*size:(i+1)*size])
	}
	for i := range whole {
		whole[i] = byte(i * 7)
	}
	return whole, each
}

func (s *stage) rdmaWrite(crc iwarp.CRCMode) (func(n int) error, error) {
	r, err := s.newRNIC(crc)
	if err != nil {
		return nil, err
	}
	sink, _ := pieces(cap(r.free), mib)
	region, err := r.far.Register(sink, rdmacm.RemoteWrite)
	if err != nil {
		return nil, err
	}
	_, local := pieces(cap(r.free), mib)
	return r.transfer(rdmacm.OpWrite, local, region), nil
}

func (s *stage) rdmaRead(crc iwarp.CRCMode) (func(n int) error, error) {
	r, err := s.newRNIC(crc)
	if err != nil {
		return nil, err
	}
	source, _ := pieces(cap(r.free), mib)
	region, err := r.far.Register(source, rdmacm.RemoteRead)
	if err != nil {
		return nil, err
	}
	_, local := pieces(cap(r.free), mib)
	return r.transfer(rdmacm.OpRead, local, region), nil
}
