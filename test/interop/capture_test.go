//go:build interop

package interop

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/dissect"
)

// waysOfMessages are the forms of messages that a capture must contain. Each must occur in at
// least one frame.
var waysOfMessages = map[string]func(f dissect.Frame) bool{
	"inline":               func(f dissect.Frame) bool { return f.Names(dissect.NFS) && chunks(f, "0", "0", "0") },
	"Read chunk":           func(f dissect.Frame) bool { return chunks(f, "1", "0", "0") && f[dissect.Position] != "0" },
	"Write chunk":          func(f dissect.Frame) bool { return chunks(f, "0", "1", "0") },
	"Reply chunk":          func(f dissect.Frame) bool { return chunks(f, "0", "0", "1") },
	"Position-Zero call":   func(f dissect.Frame) bool { return f[dissect.MessageType] == "1" && f[dissect.Position] == "0" },
	"RDMA_ERROR":           func(f dissect.Frame) bool { return f[dissect.MessageType] == "4" && f[dissect.ErrorCode] != "" },
	"RDMA Write":           opcode("0x00"),
	"RDMA Read Request":    opcode("0x01"),
	"RDMA Read Response":   opcode("0x02"),
	"Send":                 opcode("0x03"),
	"Send with Invalidate": opcode("0x04"),
}

func chunks(f dissect.Frame, reads, writes, reply string) bool {
	return f[dissect.ReadSegments] == reads && f[dissect.WriteChunks] == writes && f[dissect.ReplyChunks] == reply
}

func opcode(number string) func(dissect.Frame) bool {
	return func(f dissect.Frame) bool { return slices.Contains(f.Values(dissect.Opcode), number) }
}

// procedures are the NFSv3 procedures that the requester uses, by number (RFC 1813 §3.3).
var procedures = map[string]string{
	"3": "LOOKUP", "5": "READLINK", "6": "READ", "7": "WRITE", "8": "CREATE", "9": "MKDIR", "10": "SYMLINK", "12": "REMOVE",
	"13": "RMDIR", "14": "RENAME", "15": "LINK", "21": "COMMIT",
}

// tshark dissects the messages between nfsrdmad's requester and its responder on loopback. It
// names each frame, finds no malformed frame, and finds every form of a message.
//
// If the end of an FPDU, a whole short FPDU and the beginning of a third share a TCP segment,
// tshark loses the frame boundaries, although the framing is right. The kernel determines the
// segments. So the test records again until tshark has named every frame of each of the
// requester's connections in some recording, and these connections contain all the expected
// messages. A malformed frame always fails the test.
func TestCaptureOfOurselves(t *testing.T) {
	// 65536 is the MTU of loopback, 1500 that of an ordinary network.
	for _, mtu := range []int{65536, 1500} {
		t.Run(fmt.Sprint("mtu ", mtu), func(t *testing.T) {
			n := newNamespace(t)
			n.host("ip", "-n", n.name, "link", "set", "lo", "mtu", fmt.Sprint(mtu))
			n.serve(2049)
			named := map[string][]dissect.Frame{} // frames of the connections in which tshark named each frame
			var missing []string
			for i := range 10 {
				for stream, frames := range dissect.Streams(n.record(filepath.Join(t.TempDir(), fmt.Sprint(i, ".pcap")))) {
					if unnamed := unnamedIn(t, frames); len(unnamed) > 0 {
						t.Log("connection", stream, unnamed)
						if named[stream] == nil {
							named[stream] = []dissect.Frame{} // this connection is still missing
						}
						continue
					}
					named[stream] = append(named[stream], frames...)
				}
				if missing = missingIn(named); len(missing) == 0 {
					return
				}
				t.Log("missing:", missing)
			}
			t.Errorf("not named in any of the recordings: %v", missing)
		})
	}
}

// unnamedIn returns the frames that tshark did not name. It fails the test if a frame is
// malformed.
func unnamedIn(t *testing.T, frames []dissect.Frame) (unnamed []string) {
	t.Helper()
	for _, f := range frames {
		if f.Malformed() {
			t.Errorf("malformed: %v", f)
		}
		if f.Unnamed() {
			unnamed = append(unnamed, f.String())
		}
	}
	return unnamed
}

// missingIn returns the connections, layers, forms and procedures that tshark has not named yet.
func missingIn(named map[string][]dissect.Frame) (missing []string) {
	var frames []dissect.Frame
	for stream, of := range named {
		if len(of) == 0 {
			missing = append(missing, "connection "+stream)
		}
		frames = append(frames, of...)
	}
	layers := dissect.Layers(frames)
	for _, layer := range []string{dissect.MPA, dissect.RDMAP, dissect.RDMA, dissect.RPC, dissect.NFS, dissect.Mount} {
		if layers[layer] == 0 {
			missing = append(missing, layer)
		}
	}
	for name, shows := range waysOfMessages {
		if !slices.ContainsFunc(frames, shows) {
			missing = append(missing, name)
		}
	}
	seen := dissect.Procedures(frames)
	for number, name := range procedures {
		if seen[number] < 2 { // a call and a reply
			missing = append(missing, name)
		}
	}
	return missing
}

// record runs the requester against the daemon in the namespace. It returns the frames on
// loopback.
func (n *namespace) record(file string) []dissect.Frame {
	n.t.Helper()
	requester := filepath.Join(n.dir, "requester")
	if out, err := exec.Command("go", "build", "-o", requester, "../requester").CombinedOutput(); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	c := n.command(context.Background(), "tcpdump", "-i", "lo", "--immediate-mode", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w", file, "tcp port 20049")
	said := new(log)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	stop := func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(patience):
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	}
	for deadline := time.Now().Add(patience); !strings.Contains(said.String(), "listening on"); {
		select {
		case err := <-ended:
			n.t.Fatalf("tcpdump: %v\n%s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			stop()
			n.t.Fatalf("tcpdump does not listen\n%s", said)
		}
	}
	out, err := n.command(n.t.Context(), requester, "--faults", "--mount-port", "0", "--names", "60", "--rounds", "2", "127.0.0.1", "/x").CombinedOutput()
	stop()
	if err != nil {
		n.t.Fatalf("requester: %v\n%s", err, out)
	}
	frames, err := dissect.Capture(file)
	if err != nil {
		n.t.Fatal(err)
	}
	return frames
}
