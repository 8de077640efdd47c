package hostile

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"

	"github.com/nfsrdmad/nfsrdmad/client"
	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Sites returns a function that gives peers n addresses in turn, each in another /24. Strangers gives up
// to 127 addresses of one /24, and Strangers6 any number of /64s of one /48.
func Sites(n int) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		i %= n
		return netip.AddrFrom4([4]byte{127, 210 + byte(i>>8), byte(i), 1})
	}
}

const procRemove = 12

// removeCall returns a REMOVE call. It is not idempotent, so the daemon remembers the reply.
func removeCall(xid uint32, dir []byte, name string) []byte {
	return opaque(opaque(call(xid, nfsProgram, procRemove), dir), []byte(name))
}

// removeAll makes one REMOVE call for each name over a new TCP connection of an honest client. The XIDs are
// 1 and up. It returns how many calls succeed.
func (s *Stage) removeAll(dir []byte, names []string) (removed int, err error) {
	honest := HonestAddress
	if s.TCP.Addr().Is6() {
		honest = HonestAddress6
	}
	ctx, cancel := context.WithTimeout(s.ctx, Patience)
	defer cancel()
	c, err := dial(ctx, honest, s.TCP, 0)
	if err != nil {
		return 0, err
	}
	defer tie(ctx, c)()
	in := bufio.NewReader(c)
	for i, name := range names {
		if _, err := c.Write(record(removeCall(uint32(1+i), dir, name))); err != nil {
			return removed, err
		}
		reply, err := readRecord(in)
		if err != nil {
			return removed, err
		}
		const head = 6 * 4 // XID, REPLY, accepted, no verifier, success
		if len(reply) < head+4 || be.Uint32(reply[8:]) != 0 || be.Uint32(reply[head-4:]) != 0 {
			return removed, fmt.Errorf("the reply to a REMOVE: %x", reply)
		}
		if be.Uint32(reply[head:]) == 0 {
			removed++
		}
	}
	return removed, nil
}

// A holding is what an honest client of NFSv4.1 holds: opens of some of the honest files, and a lock of a byte of
// each.
type holding struct {
	of    *honestSession
	opens []client.Opened4
	locks []wire.StateID4
}

func holdAll(ctx context.Context, of *honestSession, files int) (*holding, error) {
	h := &holding{of: of}
	for i := range files {
		owner := fmt.Appendf(nil, "holds %d", i)
		o, err := of.Open(ctx, client.Open4{Dir: of.dir, Name: honestName(i), Owner: owner, Access: wire.Open4ShareAccessRead})
		if err != nil {
			return nil, fmt.Errorf("OPEN: %w", err)
		}
		lock, err := of.Lock(ctx, o.File, o.StateID, owner, wire.ReadLt, client.Range4{Length: 1})
		if err != nil {
			return nil, fmt.Errorf("LOCK: %w", err)
		}
		h.opens, h.locks = append(h.opens, o), append(h.locks, lock)
	}
	return h, nil
}

// lost returns how many of the locks and opens the client cannot give back any more.
func (h *holding) lost(ctx context.Context) (locks, opens int, last error) {
	for i, o := range h.opens {
		if _, err := h.of.Unlock(ctx, o.File, h.locks[i], wire.ReadLt, client.Range4{Length: 1}); err != nil {
			locks, last = locks+1, err
		}
		if err := h.of.CloseFile(ctx, o.File, o.StateID); err != nil {
			opens, last = opens+1, err
		}
	}
	return locks, opens, last
}
