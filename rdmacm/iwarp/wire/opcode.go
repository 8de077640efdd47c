package wire

import "fmt"

// An Opcode is the RDMAP message type (RFC 5040 Figure 4, RFC 7306 Figure 1).
type Opcode uint8

// Message types.
const (
	Write             Opcode = 0x0
	ReadRequest       Opcode = 0x1
	ReadResponse      Opcode = 0x2
	Send              Opcode = 0x3
	SendInvalidate    Opcode = 0x4
	SendSolicited     Opcode = 0x5
	SendSolInvalidate Opcode = 0x6
	Terminate         Opcode = 0x7

	// These have only names here, because the receiver rejects them as unexpected.
	Immediate          Opcode = 0x8
	ImmediateSolicited Opcode = 0x9
	AtomicRequest      Opcode = 0xa
	AtomicResponse     Opcode = 0xb
)

var opcodeNames = [...]string{
	"RDMA Write", "RDMA Read Request", "RDMA Read Response", "Send", "Send with Invalidate",
	"Send with Solicited Event", "Send with Solicited Event and Invalidate", "Terminate",
	"Immediate Data", "Immediate Data with Solicited Event", "Atomic Request", "Atomic Response",
}

func (o Opcode) String() string {
	if int(o) < len(opcodeNames) {
		return opcodeNames[o]
	}
	return fmt.Sprintf("Opcode(%#x)", uint8(o))
}

// Tagged reports whether o uses DDP's tagged model (RFC 5040 Figure 4).
func (o Opcode) Tagged() bool { return o == Write || o == ReadResponse }

// IsSend reports whether o is one of the four Send types, which use QueueSend.
func (o Opcode) IsSend() bool { return o >= Send && o <= SendSolInvalidate }

// Invalidates reports whether o carries an STag to invalidate.
func (o Opcode) Invalidates() bool { return o == SendInvalidate || o == SendSolInvalidate }

// Queue numbers of untagged messages (RFC 5040 §5).
const (
	QueueSend      uint32 = 0
	QueueRead      uint32 = 1
	QueueTerminate uint32 = 2
)
