//go:build kernel

package kernel

import (
	"os/exec"
	"path/filepath"
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

// TestCapture records a Linux client's work over RDMA and has tshark, which nobody here wrote, dissect it: every layer is
// named in it, every NFS procedure that the client used, and nothing is malformed.
func TestCapture(t *testing.T) {
	t.Parallel()
	s := serve(t, "sync")
	file := filepath.Join(lab.Folder(t, "capture"), "traffic.pcap")
	tcpdump := lab.StartServer(t, s.network, "tcpdump", []string{"tcpdump", "-i", "br0", "--immediate-mode", "-s", "0", "-B", "65536", "-U", "-Z", "root", "-w", file, "tcp port 20049"})
	tcpdump.AwaitLog("listening on")
	s.run(lab.Options{Limit: 2 * time.Minute}, "capture")
	tcpdump.Stop()

	// A busy machine makes TCP send some segments twice.
	args := []string{"-o", "tcp.reassemble_out_of_order:TRUE", "-r", file, "-T", "fields", "-E", "separator=/t"}
	for _, field := range dissected {
		args = append(args, "-e", field)
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	layers := map[string]int{}
	procedures := map[string]int{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		f := map[string]string{}
		for i, name := range dissected {
			f[name] = fields[i]
		}
		for layer := range strings.SplitSeq(f["frame.protocols"], ":") {
			layers[layer]++
		}
		if strings.Contains(f["frame.protocols"], "nfs") {
			for procedure := range strings.SplitSeq(f["rpc.procedure"], ",") {
				procedures[procedure]++
			}
		}
		if f["_ws.malformed"] != "" && !reducedRead(f) {
			t.Errorf("frame %s is malformed (%s): %s", f["frame.number"], f["frame.protocols"], f["_ws.expert.message"])
		}
		if f["tcp.len"] != "0" && !strings.Contains(f["frame.protocols"], "iwarp_mpa") && f["tcp.segment_data"] == "" && f["tcp.analysis.retransmission"] == "" {
			t.Errorf("frame %s carries %s bytes that are no part of an FPDU", f["frame.number"], f["tcp.len"])
		}
	}
	for _, layer := range []string{"iwarp_mpa", "iwarp_ddp_rdmap", "rpcordma", "rpc", "nfs"} {
		if layers[layer] == 0 {
			t.Errorf("no frame is named %s: %v", layer, layers)
		}
	}
	// RFC 1813 §3.3: what scripts/capture.sh makes the client ask for, by number.
	for number, name := range map[string]string{
		"1": "GETATTR", "2": "SETATTR", "3": "LOOKUP", "4": "ACCESS", "5": "READLINK", "6": "READ", "7": "WRITE", "8": "CREATE",
		"9": "MKDIR", "10": "SYMLINK", "11": "MKNOD", "12": "REMOVE", "13": "RMDIR", "14": "RENAME", "15": "LINK",
		"17": "READDIRPLUS", "18": "FSSTAT", "19": "FSINFO", "20": "PATHCONF", "21": "COMMIT",
	} {
		if procedures[number] < 2 {
			t.Errorf("%s is not named in a call and a reply: %v", name, procedures)
		}
	}
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
