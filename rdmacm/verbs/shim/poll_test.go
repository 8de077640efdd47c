//go:build verbs

package shim_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
)

// A receive that the peer used up by an RDMA Write with immediate data is told apart from a message.
// Its length is that of the Write.
func TestImmediateDataIsNoMessage(t *testing.T) {
	s := newScene(t)
	defer s.close()
	i, err := s.channel.Resolve(netip.AddrPortFrom(address, 20049), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c, err := i.Create(s.domain, device.Caps{Sends: 16, Receives: 16, SGEs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.DestroyQueues()
		c.Destroy()
	}()
	const receive, receiveImmediate = 1 << 7, 1<<7 + 1 // enum ibv_wc_opcode
	for opcode, want := range map[int32]uint32{receive: device.Message, receiveImmediate: device.Immediate} {
		libraries.opcode, libraries.length = opcode, 65536
		done, _, err := c.Poll(0)
		if err != nil || len(done) != 1 {
			t.Fatalf("%d completions, %v", len(done), err)
		}
		if done[0].Receive != want || done[0].Length != 65536 {
			t.Errorf("opcode %d: %+v, want Receive to be %d", opcode, done[0], want)
		}
	}
}

// Connections use the completion vectors of a device by turns.
func TestConnectionsUseAllVectors(t *testing.T) {
	s := newScene(t)
	defer s.close()
	libraries.vectors = 0
	for range 4 {
		end, err := constructors["Create"](s)
		if err != nil {
			t.Fatal(err)
		}
		end()
	}
	if libraries.vectors != 0b1111 {
		t.Errorf("the vectors %b are used, want all four", libraries.vectors)
	}
}

// The libraries know, before they look for devices, that the objects of a device that was removed are to
// be destroyed: drivers that disassociate would leak them otherwise.
func TestObjectsOfARemovedDeviceCanBeDestroyed(t *testing.T) {
	s := newScene(t)
	defer s.close()
	if libraries.disassociates != 1 {
		t.Error("RDMAV_ALLOW_DISASSOC_DESTROY was not set when the first channel was made")
	}
}
