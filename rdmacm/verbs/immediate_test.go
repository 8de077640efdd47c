package verbs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/rdmatest"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/device"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/verbs/fakedevice"
)

// An RDMA Write with immediate data takes a receive, at whatever length, but brings no message. It ends
// the connection, and no buffer is delivered, neither one too short nor one with an older message.
func TestWriteWithImmediateDataEndsTheConnection(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 4097, 65536, 1 << 31} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				a, b := pair(t, d)
				for range 64 { // each buffer has had a message
					if err := a.Send([]byte("old")); err != nil {
						t.Fatal(err)
					}
					b.Receive()
					b.Promise(1)
				}
				d.Immediate(device.Write, n)
				for _, p := range []*rdmatest.Peer{a, b} {
					if err := p.End(); err == nil || !strings.Contains(err.Error(), "immediate data") {
						t.Errorf("the connection ends with %v", err)
					}
				}
				if got := len(a.Messages()) + len(b.Messages()); got != 64 {
					t.Errorf("%d messages, want the 64 that the peer sent", got)
				}
			})
		})
	}
}

// A Send with immediate data is a message. If it is longer than the receive, the connection ends.
func TestSendWithImmediateData(t *testing.T) {
	for _, n := range []int{0, 100, 4096, 4097, 65536} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := fakedevice.New(false)
				a, b := pair(t, d)
				d.Immediate(device.Send, n)
				if n > 4096 {
					if err := a.End(); err == nil {
						t.Error("the connection ends without an error")
					}
					b.End()
					return
				}
				for _, p := range []*rdmatest.Peer{a, b} {
					if m := p.Receive().Bytes; !bytes.Equal(m, make([]byte, n)) {
						t.Errorf("a message of %d bytes, want %d", len(m), n)
					}
				}
				a.Conn().Disconnect()
				a.End()
				b.End()
			})
		})
	}
}
