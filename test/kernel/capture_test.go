//go:build kernel

package kernel

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/test/kernel/lab"
)

// dissected are the fields that tshark is asked for, one frame a line.
var dissected = []string{
	"frame.number", "frame.protocols", "tcp.len", "_ws.malformed", "_ws.expert.message", "rpc.program", "rpc.procedure",
	"rpc.msgtyp", "rpcordma.writes_count", "tcp.segment_data", "tcp.analysis.retransmission",
}

// nfsProcedures are what scripts/capture.sh makes the client ask for, by number (RFC 1813 §3.3).
var nfsProcedures = map[string]string{
	"1": "GETATTR", "2": "SETATTR", "3": "LOOKUP", "4": "ACCESS", "5": "READLINK", "6": "READ", "7": "WRITE", "8": "CREATE",
	"9": "MKDIR", "10": "SYMLINK", "11": "MKNOD", "12": "REMOVE", "13": "RMDIR", "14": "RENAME", "15": "LINK",
	"17": "READDIRPLUS", "18": "FSSTAT", "19": "FSINFO", "20": "PATHCONF", "21": "COMMIT",
}

// TestCapture records a Linux client's work over RDMA and has tshark, which nobody here wrote, dissect it: every layer is
// named in it, every NFS procedure that the client used, and nothing is malformed.
//
// tshark loses its place in a stream where the end of one FPDU, a short one and the beginning of a third share a TCP
// segment, however right the framing is, and names nothing from there on. How bytes fall into segments is the kernel's
// and the clock's affair, so a recording in which something is not named is made again. A malformed frame never passes.
func TestCapture(t *testing.T) {
	t.Parallel()
	s := serve(t, "sync")
	var unnamed []string
	for range 4 {
		if unnamed = dissect(t, record(t, s)); len(unnamed) == 0 {
			return
		}
		t.Log(unnamed)
	}
	t.Errorf("not named in any of the recordings: %v", unnamed)
}

// record runs the client and gives the file with what went over the bridge.
func record(t *testing.T, s *server) string {
	t.Helper()
	file := filepath.Join(lab.Folder(t, "capture"), "traffic.pcap")
	tcpdump := lab.StartServer(t, s.network, "tcpdump", []string{"tcpdump", "-i", "br0", "--immediate-mode", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w", file, "tcp port 20049"})
	tcpdump.AwaitLog("listening on")
	s.run(lab.Options{Limit: 2 * time.Minute}, "capture")
	tcpdump.Stop()
	return file
}

// dissect fails the test for malformed frames, and gives what should be named and is not.
func dissect(t *testing.T, file string) []string {
	t.Helper()
	// A busy machine makes TCP send some segments twice.
	args := []string{"-o", "tcp.reassemble_out_of_order:TRUE", "-r", file, "-T", "fields", "-E", "separator=/t"}
	for _, field := range dissected {
		args = append(args, "-e", field)
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	var unnamed []string
	layers, procedures := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(out)) {
		f := map[string]string{}
		for i, value := range strings.Split(strings.TrimRight(line, "\n"), "\t") {
			f[dissected[i]] = value
		}
		protocols := strings.Split(f["frame.protocols"], ":")
		for _, layer := range protocols {
			layers[layer]++
		}
		if slices.Contains(protocols, "nfs") {
			for procedure := range strings.SplitSeq(f["rpc.procedure"], ",") {
				procedures[procedure]++
			}
		}
		if f["_ws.malformed"] != "" && !reducedRead(f) {
			t.Errorf("frame %s is malformed (%s): %s", f["frame.number"], f["frame.protocols"], f["_ws.expert.message"])
		}
		if f["tcp.len"] != "0" && !slices.Contains(protocols, "iwarp_mpa") && f["tcp.segment_data"] == "" && f["tcp.analysis.retransmission"] == "" {
			unnamed = append(unnamed, "frame "+f["frame.number"])
		}
	}
	for _, layer := range []string{"iwarp_mpa", "iwarp_ddp_rdmap", "rpcordma", "rpc", "nfs"} {
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

// reducedRead is true of READ replies whose data went by RDMA Write. The dissector looks for the data in the reply from
// which RPC-over-RDMA took it (RFC 8166 §3.4.4); it calls the same frames malformed when knfsd sends them, and no others.
func reducedRead(f map[string]string) bool {
	all := func(list, value string) bool {
		for word := range strings.SplitSeq(list, ",") {
			if word != value {
				return false
			}
		}
		return true
	}
	return all(f["rpc.program"], "100003") && all(f["rpc.procedure"], "6") && all(f["rpc.msgtyp"], "1") && f["rpcordma.writes_count"] == "1"
}
