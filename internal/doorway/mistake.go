package doorway

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// A Protocol is what a peer speaks, as far as its first bytes tell.
type Protocol uint8

// Protocols that clients speak at the wrong port, or that scanners try.
const (
	Unknown Protocol = iota
	RPC              // an RPC call over TCP (RFC 5531 §11)
	MPA              // the start-up frame of iWARP (RFC 5044 §7.1), with which NFS over RDMA begins
	TLS              // a ClientHello (RFC 8446 §5.1)
	HTTP             // an HTTP request, or the preface of HTTP/2
	SSH              // the identification of SSH (RFC 4253 §4.2)
)

// String says what the peer speaks.
func (p Protocol) String() string {
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("Protocol(%d)", uint8(p))
}

var names = [...]string{"an unknown protocol", "NFS over TCP (RPC)", "NFS over RDMA (MPA)", "TLS", "HTTP", "SSH"}

// begins lists the first bytes of protocols.
var begins = []struct {
	with string
	is   Protocol
}{
	{"MPA ID Req Frame", MPA}, {"GET ", HTTP}, {"HEAD ", HTTP}, {"POST ", HTTP}, {"PUT ", HTTP},
	{"OPTIONS ", HTTP}, {"CONNECT ", HTTP}, {"PRI * HTTP/2", HTTP}, {"SSH-", SSH},
}

// ProtocolOf returns the protocol of a peer whose input begins with head. 20 bytes are enough.
func ProtocolOf(head []byte) Protocol {
	for _, b := range begins {
		if bytes.HasPrefix(head, []byte(b.with)) {
			return b.is
		}
	}
	switch {
	case len(head) >= 6 && head[0] == 22 && head[1] == 3 && head[5] == 1:
		return TLS
	case len(head) >= 16 && head[0]&0x80 != 0 && binary.BigEndian.Uint32(head[8:]) == 0 && binary.BigEndian.Uint32(head[12:]) == 2:
		return RPC
	}
	return Unknown
}

// A Mistake is the reason for the end of a connection whose peer does not speak the protocol of the port.
type Mistake struct {
	Speaks Protocol
	Port   string // what the port is for
}

// Error implements error.
func (m *Mistake) Error() string {
	return fmt.Sprintf("the peer speaks %v, and this port is for %s", m.Speaks, m.Port)
}

// Hold is how long a connection with a Mistake stays open, unread, unless its place is needed earlier.
// Linux connects again as soon as a connection ends, so one mistyped mount could otherwise make
// thousands of connections a second.
const Hold = time.Second
