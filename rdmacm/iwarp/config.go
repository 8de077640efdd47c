package iwarp

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/nfsrdmad/nfsrdmad/internal/census"
	"github.com/nfsrdmad/nfsrdmad/internal/seats"
	"github.com/nfsrdmad/nfsrdmad/rdmacm"
	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

// CRCMode says whether this side asks for CRC32C on FPDUs (RFC 5044 §4.4). If
// either side asks, both generate and check, whatever the mode.
type CRCMode uint8

// CRC modes.
const (
	// CRCPeer asks for CRCs when connecting, which is the default of RFC 5044. When accepting, it
	// leaves the choice to the peer. A peer with Linux's siw does not ask for CRCs.
	CRCPeer CRCMode = iota
	// CRCOn asks for CRCs when connecting and when accepting.
	CRCOn
	// CRCOff never asks. The connection then has CRCs only if the peer asks.
	CRCOff
)

var crcModes = []string{CRCPeer: "peer", CRCOn: "on", CRCOff: "off"}

func (m CRCMode) String() string {
	if m > CRCOff {
		return fmt.Sprintf("CRCMode(%d)", uint8(m))
	}
	return crcModes[m]
}

// ParseCRCMode reads "peer", "on" or "off".
func ParseCRCMode(s string) (CRCMode, error) {
	if m := slices.Index(crcModes, s); m >= 0 {
		return CRCMode(m), nil
	}
	return 0, fmt.Errorf("iwarp: CRC mode %q is none of peer, on, off", s)
}

// FPDUSize is the size of the FPDUs that this side sends.
type FPDUSize int

const (
	// FPDUAuto sends FPDUs as large as the standard allows, some 64 KiB, which is the cheapest size
	// for peers in software, siw included. With CRCs it fits each FPDU into a TCP segment, because
	// siw needs that (see batchRecords).
	FPDUAuto FPDUSize = 0
	// FPDUMSS fits each FPDU into a TCP segment (RFC 5044 §5.1), which hardware RNICs may insist on.
	FPDUMSS FPDUSize = -1

	// Any other FPDUSize is a number of bytes, from MinFPDU to MaxFPDU. It includes the CRC, but no
	// markers.
	MinFPDU = wire.LengthSize + wire.MinULPDU + 2 + wire.CRCSize
	MaxFPDU = wire.LengthSize + wire.MaxULPDU + 2 + wire.CRCSize
)

func (s FPDUSize) String() string {
	switch s {
	case FPDUAuto:
		return "auto"
	case FPDUMSS:
		return "mss"
	}
	return strconv.Itoa(int(s))
}

// ParseFPDUSize reads "auto", "mss" or a number of bytes.
func ParseFPDUSize(s string) (FPDUSize, error) {
	switch s {
	case "auto":
		return FPDUAuto, nil
	case "mss":
		return FPDUMSS, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("iwarp: FPDU size %q is none of auto, mss, number of bytes", s)
	}
	return FPDUSize(n), FPDUSize(n).check()
}

func (s FPDUSize) check() error {
	if s != FPDUAuto && s != FPDUMSS && (s < MinFPDU || s > MaxFPDU) {
		return fmt.Errorf("iwarp: FPDU size %d is not within %d..%d", s, MinFPDU, MaxFPDU)
	}
	return nil
}

// Config is the configuration of a Provider. The zero Config is valid.
type Config struct {
	CRC     CRCMode
	MaxFPDU FPDUSize
	// Revision is the MPA revision to connect with: 1 or 2; 0 means 2. If the peer does not
	// support revision 2, the provider connects once more by revision 1.
	Revision wire.Revision
	// RTR lists the forms of the zero-length ready-to-receive message that an initiator
	// offers (the peer-to-peer model of RFC 6581 §9.2). The message lets the responder be
	// the first to send. 0 means Write and Read. A responder that does not know the model
	// (revision 1) gets an empty RDMA Write, which any peer accepts.
	RTR wire.RTR
	// ClientServer makes connections by the client-server model instead: this side sends no
	// ready-to-receive message, and the responder sends nothing before this side has sent something.
	ClientServer bool
	// MaxIRD is the largest number of outstanding RDMA Reads of the peer on a connection, and MaxORD
	// that of this side. 0 means 128.
	MaxIRD, MaxORD int
	// SetupTimeout is the time limit for the set-up of a connection, from the TCP connection to the
	// reply, and then for the wait for the ready-to-receive message. 0 means 10 s.
	SetupTimeout time.Duration
	// StallTimeout is how long a peer may leave work undone without any progress: it does not
	// read, does not answer an RDMA Read, or stops in the middle of a message. Disconnect also
	// waits at most this long. 0 means 30 s.
	StallTimeout time.Duration
	// LingerTimeout limits two waits at the end of a connection: after a Terminate or a
	// rejection, for the peer to close the connection; and after the peer has closed its half,
	// for TCP to take this side's remaining work. 0 means 2 s.
	LingerTimeout time.Duration
	// Seats counts and limits accepted connections: their number, the time for their set-ups, and
	// how long they may be silent. If it is nil, the provider makes Seats of its own, with
	// SetupTimeout and the default limits.
	Seats rdmacm.Seats
	// Rings is the number of receive rings of RingSize bytes, which all connections share. While
	// handlers block, there are up to twice as many. 0 means two for each processor, at least 8.
	Rings int
	// The provider calls Event for each event of a connection, from any goroutine. Event
	// must not block.
	Event func(rdmacm.Event)
}

// RingSize is the length of a receive ring, in bytes.
const RingSize = 256 << 10

// turnSize is the number of input bytes after which a receiver lets other receivers run. It is
// large, because each yield wakes an idle processor and may move the receiver there. With 256
// KiB, a transfer of data lost a fifth of its rate.
const turnSize = 4 * RingSize

// While other receivers wait for a ring, a receiver gives its own back after turnTime. It then
// also reads at most turnInput bytes into the ring at a time, because many RPC calls fit into a
// full ring, and the receiver processes all of them before it gives the ring back.
const (
	turnTime  = 500 * time.Microsecond
	turnInput = 16 << 10
)

// Limits and defaults.
const (
	defaultDepth   = 128
	defaultSetup   = census.DefaultSetupTimeout
	defaultStall   = 30 * time.Second
	defaultLinger  = 2 * time.Second
	defaultRings   = 8
	maxDepth       = wire.DepthUnset - 1
	ringsPerThread = 2
)

func (c *Config) complete() error {
	if err := c.MaxFPDU.check(); err != nil {
		return err
	}
	if c.CRC > CRCOff {
		return fmt.Errorf("iwarp: unknown %v", c.CRC)
	}
	if c.Revision == 0 {
		c.Revision = wire.Revision2
	}
	if c.Revision > wire.Revision2 {
		return fmt.Errorf("iwarp: MPA revision %d is none of 1 and 2", c.Revision)
	}
	if c.RTR == 0 {
		c.RTR = wire.RTRWrite | wire.RTRRead
	}
	for _, n := range []*int{&c.MaxIRD, &c.MaxORD} {
		if *n == 0 {
			*n = defaultDepth
		}
		if *n < 1 || *n > maxDepth {
			return fmt.Errorf("iwarp: %d RDMA Reads at a time is not within 1..%d", *n, maxDepth)
		}
	}
	setDefault(&c.SetupTimeout, defaultSetup)
	setDefault(&c.StallTimeout, defaultStall)
	setDefault(&c.LingerTimeout, defaultLinger)
	if c.Seats == nil {
		c.Seats = seats.Of(census.New(census.Config{SetupTimeout: c.SetupTimeout}))
	}
	setDefault(&c.Rings, max(defaultRings, ringsPerThread*runtime.GOMAXPROCS(0)))
	return nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
