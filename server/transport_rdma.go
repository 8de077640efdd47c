package server

import (
	"context"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/transport/rdma"
)

// rdmaCarrier is RPC-over-RDMA on a provider.
type rdmaCarrier struct {
	server *rdma.Server
	device device
}

func openRDMA(s *Server) (carrier, error) {
	d, err := softwareRNIC.open(s)
	if err != nil {
		return nil, err
	}
	server, err := rdma.NewServer(rdma.Config{
		RPC: s.rpc, Pool: s.pool, Credits: s.cfg.RNIC.Credits,
		InlineSend: int(s.cfg.RNIC.Inline), InlineReceive: int(s.cfg.RNIC.Inline),
		RemoteInvalidation: true, Event: s.rdmaFault,
	})
	if err != nil {
		return nil, err
	}
	return &rdmaCarrier{server, d}, nil
}

func dialRDMA(ctx context.Context, at netip.AddrPort) (rpc.Client, error) {
	device, err := iwarp.New(iwarp.Config{})
	if err != nil {
		return nil, err
	}
	k, err := rdma.Dial(ctx, device, at, rdma.DialConfig{})
	if err != nil {
		return nil, err
	}
	return rdmaClient{k}, nil
}

// rdmaClient is an rpc.Client.
type rdmaClient struct{ *rdma.Client }

func (c rdmaClient) Close() { _ = c.Client.Close() }

func (c *rdmaCarrier) listen(addr netip.AddrPort) (*listener, error) {
	l, err := c.device.Listen(addr)
	if err != nil {
		return nil, listenError("RDMA ("+c.device.Name()+")", addr, err)
	}
	return &listener{
		addr:  l.Addr(),
		serve: func() error { return c.server.Serve(l) },
		close: l.Close,
	}, nil
}

func (c *rdmaCarrier) shutdown(ctx context.Context) error { return c.server.Shutdown(ctx) }
func (c *rdmaCarrier) close() error                       { return c.server.Close() }

func (c *rdmaCarrier) traffic() traffic {
	st, device := c.server.Stats(), c.device.traffic()
	var faults []count
	for f := range rdma.Faults() {
		faults = append(faults, count{f.String(), uint64(st.Count(f))})
	}
	return traffic{
		faults: faults,
		open:   st.Connections.Load(), accepted: uint64(st.Accepted.Load()), stalled: uint64(st.Timeouts()),
		bytes: []count{
			{"inline_received", uint64(st.BytesInlineIn.Load())}, {"inline_sent", uint64(st.BytesInlineOut.Load())},
			{"read_chunk", uint64(st.BytesRead.Load())}, {"write_chunk", uint64(st.BytesWritten.Load())},
			{"reply_chunk", uint64(st.BytesReplyChunk.Load())},
		},
		malformed: append([]count{
			{"version", uint64(st.ErrVers.Load())}, {"chunk", uint64(st.ErrChunk.Load())},
			{"discarded", uint64(st.Discarded.Load())}, {"failed_work", uint64(st.FailedWork())},
			{"overrun", uint64(st.Overruns())},
		}, device.malformed...),
	}
}
