//go:build hostile

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// collectOften makes a daemon collect garbage all the time. This shows whether the Go runtime
// waits for a thread that a stalled system call blocks.
var collectOften = []string{"GOGC=1"}

// A READDIRPLUS of a directory does not stop the daemon if the kernel has cached the directory's
// listing and look-ups of its names stall.
func TestReaddirplusOnAStalledFileSystem(t *testing.T) {
	for _, transport := range Transports {
		t.Run(transport, func(t *testing.T) {
			s := stage(t, Config{Stalling: 1, Remembered: true, Environment: collectOften})
			dir := s.Stalling[0].Many
			// The kernel caches a listing that was read to its end.
			if _, err := os.ReadDir(filepath.Join(s.Stalling[0].Mount, manyName)); err != nil {
				t.Fatal(err)
			}
			cookie, verifier := s.listed(dir)
			s.Stalling[0].Stall()
			s.Attack(Calls{
				Peers: 1, What: "READDIRPLUS of a directory whose names cannot be looked up",
				Calls: [][]byte{readdirplusCall(2, dir, cookie, verifier, 64*kib)},
				RDMA:  transport == "rdma", Size: 68 * kib, InReply: true,
			}, Strangers(1))
			makeGarbage(s)
			s.Judge()
		})
	}
}

// makeGarbage connects 1,500 clients, so that the daemon collects garbage.
func makeGarbage(s *Stage) { s.Attack(IdleClients{Peers: 1500}, Strangers(30)) }

// One call of each kind to a stalled file system delays neither calls to other file systems nor
// the daemon's end.
func TestCallsIntoAStalledFileSystem(t *testing.T) {
	for _, transport := range Transports {
		t.Run(transport, func(t *testing.T) {
			s := stage(t, Config{Stalling: 1, Environment: collectOften})
			p := s.Stalling[0]
			s.Stalling[0].Stall()
			for _, c := range []struct {
				name string
				call []byte
				size uint32
				long bool // the reply needs a Reply chunk
			}{
				{"READDIRPLUS", readdirplusCall(2, p.Many, 0, [8]byte{}, 64*kib), 68 * kib, true},
				{"GETATTR", getattrCall(2, p.Victim), 0, false},
				{"LOOKUP", lookupCall(2, p.Root, "not seen yet"), 0, false},
				{"READ", readCall(2, p.Victim, 0, 4096), 4096, false},
				{"WRITE", writeCall(2, p.Victim, 0, 1024, fileSync), 0, false},
			} {
				s.Attack(Calls{
					Peers: 1, What: c.name + " into a file system that stalls", Calls: [][]byte{c.call},
					RDMA: transport == "rdma", Size: c.size, InReply: c.long,
				}, Strangers(1))
			}
			makeGarbage(s)
			s.Judge()
		})
	}
}

// If one, two, or all but one of the file systems stall, with many READs under way, the daemon
// serves the others.
func TestStalledFileSystems(t *testing.T) {
	const all = 4
	for _, stalled := range []int{1, 2, all} {
		t.Run(fmt.Sprintf("%d of %d", stalled, all+1), func(t *testing.T) {
			s := stage(t, Config{Stalling: all})
			var handles [][]byte
			for i := range stalled {
				s.Stalling[i].Stall()
				handles = append(handles, s.Stalling[i].Victim)
			}
			for _, transport := range Transports {
				s.Attack(QueuedReads{Peers: 16, Calls: 128, Size: mib, Handles: handles, RDMA: transport == "rdma"}, Strangers(16))
			}
			others := []string{openName}
			for i := stalled; i < all; i++ {
				others = append(others, s.Stalling[i].Name)
			}
			s.JudgeClientsOf(others...)
			s.JudgeMemory()
			s.JudgeEnd()
		})
	}
}
