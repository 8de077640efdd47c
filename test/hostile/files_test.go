//go:build hostile

package hostile

import (
	"os"
	"path/filepath"
	"testing"
)

// A daemon with 1,000 descriptors can open files for others while two strangers write to 490
// files each. The strangers write a byte to each file, not to stable storage, and then ask for
// the files' attributes all the time.
func TestUnstableWritesToManyFiles(t *testing.T) {
	s := stage(t, Config{Descriptors: 1000, Files: 980})
	s.Attack(ScatteredWrites{Peers: 2, Directory: s.Open.Root, Names: emptyNames(490)}, Strangers(2))
	s.JudgeClientsOf(closedName, openName)
	s.JudgeMemory()
	s.JudgeEnd()
}

// emptyNames returns a function that returns the names of the n empty files of peer i. No two
// peers share a file.
func emptyNames(n int) func(i int) []string {
	return func(i int) (all []string) {
		for k := range n {
			all = append(all, emptyName(i*n+k))
		}
		return all
	}
}

// Clients can list directories while the daemon searches a tree of 200,000 names for 100 stale
// handles. It has to search because, without the capability DAC_READ_SEARCH, it cannot open files
// by handle.
func TestStaleHandlesWithoutTheKernelsHandles(t *testing.T) {
	const files, gone = 200_000, 100
	s := stage(t, Config{Files: files, Without: []string{"dac_read_search"}})
	var names []string
	for i := range gone {
		names = append(names, emptyName(i))
	}
	var calls [][]byte
	for i, handle := range s.lookUp(names) {
		calls = append(calls, getattrCall(uint32(i), handle))
		if err := os.Remove(filepath.Join(s.Directory, names[i])); err != nil {
			t.Fatal(err)
		}
	}
	s.Attack(RepeatedCalls{Peers: 1, What: "GETATTR of files that are gone", Calls: calls}, Strangers(1))
	s.JudgeListings()
	s.Judge()
}
