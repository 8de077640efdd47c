//go:build kernel

package rping

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
)

// advertSize is the length in bytes of rping's only message, which has the address, key and size
// of a buffer of the client. The server's messages have the same length, and their content is
// unused.
const advertSize = 16

func putAdvert(r rdmacm.Region, size int) []byte {
	b := binary.BigEndian.AppendUint64(nil, r.Offset())
	b = binary.BigEndian.AppendUint32(b, r.STag())
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

func parseAdvert(b []byte) (rdmacm.Remote, int) {
	return rdmacm.Remote{Offset: binary.BigEndian.Uint64(b), STag: binary.BigEndian.Uint32(b[8:])}, int(binary.BigEndian.Uint32(b[12:]))
}

// die prints an error and ends the process. The process runs in the lab's network, separate from
// the test process.
func die(what string, err error) {
	fmt.Fprintln(os.Stderr, what, err)
	os.Exit(1)
}

func device(crc, fpdu string) *iwarp.Provider {
	var cfg iwarp.Config
	var err error
	if cfg.CRC, err = iwarp.ParseCRCMode(crc); err != nil {
		die("crc", err)
	}
	if cfg.MaxFPDU, err = iwarp.ParseFPDUSize(fpdu); err != nil {
		die("fpdu", err)
	}
	p, err := iwarp.New(cfg)
	if err != nil {
		die("provider", err)
	}
	return p
}

// messages is a Handler that sends the received messages to a channel.
type messages struct {
	received chan []byte
	closed   chan error
}

func newMessages() *messages {
	return &messages{make(chan []byte, 8), make(chan error, 1)}
}

func (m *messages) Received(r *rdmacm.Recv) {
	m.received <- append([]byte(nil), r.Bytes...)
	r.Release()
}
func (m *messages) Closed(err error) { m.closed <- err; close(m.received) }

// do posts work and waits until it has completed.
func do(c rdmacm.Conn, work ...rdmacm.Work) error {
	done := make(chan error, 1)
	c.Post(&rdmacm.Chain{Work: work, Done: func(_ *rdmacm.Chain, err error, _ int) { done <- err }})
	return <-done
}

func param(m *messages) rdmacm.ConnParam {
	return rdmacm.ConnParam{Handler: m, Receives: 4, ReceiveSize: advertSize, InboundReads: 4, OutboundReads: 4}
}

// serve is rping's server. The client advertises two buffers: the server reads the first, and
// writes the data to the second.
func serve(addr, crc, fpdu string) {
	l, err := device(crc, fpdu).Listen(netip.MustParseAddrPort(addr))
	if err != nil {
		die("listen", err)
	}
	for {
		r, err := l.Accept()
		if err != nil {
			die("accept", err)
		}
		m := newMessages()
		c, err := r.Accept(param(m))
		if err != nil {
			fmt.Println("accept:", err)
			continue
		}
		go func() {
			ack := rdmacm.Work{Op: rdmacm.OpSend, Local: [][]byte{make([]byte, advertSize)}}
			var data []byte
			rounds := 0
			for b := range m.received {
				c.Provide(1, advertSize)
				remote, size := parseAdvert(b)
				op := rdmacm.OpRead
				if rounds++; rounds%2 == 0 {
					op = rdmacm.OpWrite
				} else {
					data = make([]byte, size)
				}
				if err := do(c, rdmacm.Work{Op: op, Local: [][]byte{data}, Remote: remote}, ack); err != nil {
					fmt.Println(op, err)
				}
			}
			fmt.Println("closed after", rounds, "messages:", <-m.closed)
		}()
	}
}
