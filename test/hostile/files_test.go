//go:build hostile

package hostile

import (
	"os"
	"path/filepath"
	"testing"
)

// Two strangers write a byte to each of 490 files, not to stable storage, and then ask for the
// files' attributes all the time: a daemon with 1,000 descriptors has some left for others (A6).
func TestUnstableWritesToManyFiles(t *testing.T) {
	s := stage(t, Config{Descriptors: 1000, Files: 980})
	s.Attack(ScatteredWrites{Peers: 2, Directory: s.Open.Root, Names: emptyNames(490)}, Strangers(2))
	s.JudgeClientsOf(closedName, openName)
	s.JudgeMemory()
	s.JudgeEnd()
}

// emptyNames returns the names of n empty files for each peer, of which no two peers share one.
func emptyNames(n int) func(i int) []string {
	return func(i int) (all []string) {
		for k := range n {
			all = append(all, emptyName(i*n+k))
		}
		return all
	}
}

// 100 handles of files that are gone, in a tree of 200,000 names. The daemon may not open files
// by the kernel's handles, so it searches for them; meanwhile other clients list directories
// (A14).
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
