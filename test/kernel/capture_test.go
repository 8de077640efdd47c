//go:build kernel

package kernel

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/dissect"
	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// nfsProcedures are the procedures that scripts/capture.sh makes the client call, by number (RFC
// 1813 §3.3).
var nfsProcedures = map[string]string{
	"1": "GETATTR", "2": "SETATTR", "3": "LOOKUP", "4": "ACCESS", "5": "READLINK", "6": "READ", "7": "WRITE", "8": "CREATE",
	"9": "MKDIR", "10": "SYMLINK", "11": "MKNOD", "12": "REMOVE", "13": "RMDIR", "14": "RENAME", "15": "LINK",
	"17": "READDIRPLUS", "18": "FSSTAT", "19": "FSINFO", "20": "PATHCONF", "21": "COMMIT",
}

// TestCapture records the traffic of a Linux client over RDMA, and has tshark, an independent
// dissector, dissect the recording. tshark must name every layer and every NFS procedure that the
// client used, and find no malformed frame.
//
// If the end of one FPDU, a short FPDU and the beginning of a third share a TCP segment, tshark
// loses the frame boundaries, although the framing is right, and names nothing after that. The
// kernel and its timing determine the segments, so the test records again if a name is missing. A
// malformed frame always fails the test.
func TestCapture(t *testing.T) {
	t.Parallel()
	s := serve(t, "sync")
	var unnamed []string
	for range 4 {
		if unnamed = unnamedIn(t, record(t, s)); len(unnamed) == 0 {
			return
		}
		t.Log(unnamed)
	}
	t.Errorf("not named in any of the recordings: %v", unnamed)
}

// record runs the client and returns the name of a capture file with the frames that crossed the
// bridge.
func record(t *testing.T, s *server) string {
	t.Helper()
	file := filepath.Join(lab.Folder(t, "capture"), "traffic.pcap")
	tcpdump := lab.StartServer(t, s.network, "tcpdump", []string{"tcpdump", "-i", "br0", "--immediate-mode", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w", file, "tcp port 20049"})
	tcpdump.AwaitLog("listening on")
	s.run(lab.Options{Limit: 2 * time.Minute}, "capture")
	tcpdump.Stop()
	return file
}

// unnamedIn fails the test if a frame is malformed. It returns the layers and procedures that
// tshark did not name.
func unnamedIn(t *testing.T, file string) []string {
	t.Helper()
	frames, err := dissect.Capture(file)
	if err != nil {
		t.Fatal(err)
	}
	var unnamed []string
	for _, f := range frames {
		if f.Malformed() {
			t.Errorf("malformed: %v", f)
		}
		if f.Unnamed() {
			unnamed = append(unnamed, "frame "+f[dissect.Number])
		}
	}
	layers, procedures := dissect.Layers(frames), dissect.Procedures(frames)
	for _, layer := range []string{dissect.MPA, dissect.RDMAP, dissect.RDMA, dissect.RPC, dissect.NFS} {
		if layers[layer] == 0 {
			unnamed = append(unnamed, layer)
		}
	}
	for number, name := range nfsProcedures {
		if procedures[number] < 2 { // a call and a reply
			unnamed = append(unnamed, name)
		}
	}
	return unnamed
}
