// Package dissect runs tshark, an independent dissector, on captures of NFS over RDMA: MPA, DDP
// and RDMAP, RPC-over-RDMA, ONC RPC, and NFS. For each frame it returns the layers that tshark
// named, and whether tshark found a fault.
//
// The tests make the captures themselves.
//
// tshark does not know RPC-over-RDMA version 2. rpcrdma2.lua is a dissector for it, which a tshark or Wireshark anywhere
// can load. Messages of version 2 are not in the Frames yet.
package dissect

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// A Field is tshark's name for a part of a frame.
type Field string

// The fields of a Frame.
const (
	Number         Field = "frame.number"
	Protocols      Field = "frame.protocols"
	Stream         Field = "tcp.stream"
	Length         Field = "tcp.len"
	Fault          Field = "_ws.malformed"
	Expert         Field = "_ws.expert.message"
	Opcode         Field = "iwarp_rdma.opcode" // opcode of RDMAP
	MessageType    Field = "rpcordma.msg_type"
	ReadSegments   Field = "rpcordma.reads_count"
	Position       Field = "rpcordma.position"
	WriteChunks    Field = "rpcordma.writes_count"
	ReplyChunks    Field = "rpcordma.reply_count"
	ErrorCode      Field = "rpcordma.errcode"
	Program        Field = "rpc.program"
	Procedure      Field = "rpc.procedure"
	RPCType        Field = "rpc.msgtyp"
	segment        Field = "tcp.segment_data"
	retransmission Field = "tcp.analysis.retransmission"
)

var fields = []Field{
	Number, Protocols, Stream, Length, Fault, Expert, Opcode, MessageType, ReadSegments, Position, WriteChunks, ReplyChunks,
	ErrorCode, Program, Procedure, RPCType, segment, retransmission,
}

// The names of the layers in Protocols.
const (
	MPA   = "iwarp_mpa"
	RDMAP = "iwarp_ddp_rdmap"
	RDMA  = "rpcordma"
	RPC   = "rpc"
	NFS   = "nfs"
	Mount = "mount"
)

// nfsProgram is NFS's RPC program number.
const nfsProgram = "100003"

// A Frame is what tshark reports of one frame: the text of each field. If a field occurs several
// times, its text has several values, separated by commas.
type Frame map[Field]string

// Capture dissects a capture file of tcpdump.
func Capture(file string) ([]Frame, error) {
	// With this option, tshark puts TCP segments in order. The captures need that, because on a
	// busy machine TCP sends some segments twice.
	args := []string{"-o", "tcp.reassemble_out_of_order:TRUE", "-r", file, "-T", "fields", "-E", "separator=/t"}
	for _, field := range fields {
		args = append(args, "-e", string(field))
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("tshark: %w", err)
	}
	var all []Frame
	for line := range strings.Lines(string(out)) {
		f := Frame{}
		for i, value := range strings.Split(strings.TrimRight(line, "\n"), "\t") {
			f[fields[i]] = value
		}
		all = append(all, f)
	}
	return all, nil
}

// Values returns all values of a field.
func (f Frame) Values(field Field) []string {
	if f[field] == "" {
		return nil
	}
	return strings.Split(f[field], ",")
}

// Names reports whether tshark named the layer in the frame.
func (f Frame) Names(layer string) bool {
	return slices.Contains(strings.Split(f[Protocols], ":"), layer)
}

// Unnamed reports whether a frame has bytes that tshark did not recognize. It ignores
// retransmissions, and parts of FPDUs, because tshark names an FPDU in the frame that completes it.
func (f Frame) Unnamed() bool {
	return f[Length] != "0" && !f.Names(MPA) && f[segment] == "" && f[retransmission] == ""
}

// Malformed reports whether tshark found a real fault in the frame.
//
// It returns false for replies whose data or text was sent by RDMA Write, although tshark reports
// these as malformed. The dissector looks for the data in the reply, but RPC-over-RDMA has
// removed it there (RFC 8166 §3.4.4). tshark calls the same frames malformed when knfsd sends
// them, and no others.
func (f Frame) Malformed() bool { return f[Fault] != "" && !f.reduced() }

// reduced reports whether the frame has only replies to READ and READLINK with a Write chunk.
func (f Frame) reduced() bool {
	only := func(field Field, allowed ...string) bool {
		return !slices.ContainsFunc(f.Values(field), func(v string) bool { return !slices.Contains(allowed, v) })
	}
	return only(Program, nfsProgram) && only(Procedure, "5", "6") && only(RPCType, "1") && only(WriteChunks, "1") && f[WriteChunks] != ""
}

// String returns a description of the frame in one line.
func (f Frame) String() string {
	return fmt.Sprintf("frame %s (%s): %s", f[Number], f[Protocols], f[Expert])
}

// Streams groups the frames by TCP connection.
func Streams(frames []Frame) map[string][]Frame {
	of := map[string][]Frame{}
	for _, f := range frames {
		of[f[Stream]] = append(of[f[Stream]], f)
	}
	return of
}

// Layers returns, for each layer name of tshark, the number of frames that have the layer.
func Layers(frames []Frame) map[string]int {
	n := map[string]int{}
	for _, f := range frames {
		for _, layer := range strings.Split(f[Protocols], ":") {
			n[layer]++
		}
	}
	return n
}

// Procedures returns, for each NFS procedure number, the number of calls and replies.
func Procedures(frames []Frame) map[string]int {
	n := map[string]int{}
	for _, f := range frames {
		if f.Names(NFS) {
			for _, p := range f.Values(Procedure) {
				n[p]++
			}
		}
	}
	return n
}
