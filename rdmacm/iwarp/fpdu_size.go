package iwarp

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp/wire"
)

const (
	// optionRoom is the size of the longest TCP options, in bytes. A segment with selective
	// acknowledgements may carry up to that much less payload than TCP_MAXSEG.
	optionRoom = 40
	// The transmitter reads the segment size again only when it has sent remeasureBytes bytes and
	// remeasureTime has passed. Otherwise a fast sender would read it thousands of times a second.
	remeasureBytes = 1 << 20
	remeasureTime  = 20 * time.Millisecond
)

func (t *transmitter) init() error {
	t.idle.L = &t.mu
	t.ready, t.loop = t.writeReady, t.transmitLoop
	if t.agreed.Markers {
		t.marked = new(marked)
	}
	var err error
	if ctlErr := t.raw.Control(func(fd uintptr) {
		err = t.sizeFPDUs(fd)
		// With TCP_INQ the kernel reports that the socket is empty. Without it the receiver needs one
		// more read each time to find that out.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INQ, 1)
	}); ctlErr != nil {
		err = ctlErr
	}
	return err
}

// sizeFPDUs computes the largest payload of one FPDU from Config.MaxFPDU. If MaxFPDU is FPDUMSS,
// or if it is FPDUAuto and CRCs are used, each FPDU fits into one TCP segment.
func (t *transmitter) sizeFPDUs(fd uintptr) error {
	mss, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	if err != nil {
		return fmt.Errorf("iwarp: TCP_MAXSEG: %w", err)
	}
	size := t.p.cfg.MaxFPDU
	ulpdu := wire.MaxULPDU
	t.segment = mss - optionRoom
	t.unmeasured, t.measured = 0, time.Now()
	t.aligned = size == FPDUMSS || t.agreed.CRC
	switch {
	case size > 0:
		ulpdu = int(size)&^3 - wire.LengthSize - wire.CRCSize
	case t.aligned:
		ulpdu = mulpdu(t.segment, t.agreed.Markers)
	}
	ulpdu = min(max(ulpdu, wire.MinULPDU), wire.MaxULPDU)
	// Payload in multiples of 4 bytes needs a pad only at the end of a message.
	t.taggedRoom = (ulpdu - wire.TaggedSize) &^ 3
	t.untaggedRoom = (ulpdu - wire.UntaggedSize) &^ 3
	return nil
}

// remeasure adapts the size of FPDUs to a changed network path. It reads the segment size again
// only after remeasureBytes bytes were sent and remeasureTime has passed.
func (t *transmitter) remeasure(fd uintptr) {
	if t.unmeasured = 0; time.Since(t.measured) >= remeasureTime {
		// An error means that the connection has ended; the next write reports that.
		_ = t.sizeFPDUs(fd)
	}
}

// mulpdu returns the largest ULPDU whose FPDU fits into a TCP segment (RFC 5044 §4.1.1).
func mulpdu(emss int, markers bool) int {
	n := emss - (wire.LengthSize + wire.CRCSize + emss%4)
	if markers {
		n -= wire.MarkerSize * ((emss + wire.MarkerInterval - 1) / wire.MarkerInterval)
	}
	return n
}
