//go:build hostile

package hostile

import (
	"testing"

	wire "github.com/nfsrdmad/nfsrdmad/ulb/nfs/nfs4wire"
)

// Compounds with too few chunks, too many, or chunks of wrong sizes harm only their senders, and
// cost the daemon no more than one ordinary call.
func TestCompoundsWithChunks(t *testing.T) {
	s := stage(t, Config{})
	s.Sessions()
	s.Attack(ChunkedCalls{ChunkedCompounds(s.Open.Victim, s.Open.Many)}, Strangers(30))
	s.JudgeFaults()
	s.Judge()
}

// A compound with many READs, whose results are larger than the memory that the daemon has
// reserved for the compound, takes no more memory than was reserved.
func TestReadsBeyondTheirMemory(t *testing.T) {
	s := stage(t, Config{})
	s.Sessions()
	s.Attack(ChunkedCalls{times(10, Chunked{
		"100 READs of 1 MiB in a Reply chunk", listed{reply: chunk(1, 1<<31)},
		append([]op4{putFH(s.Open.Victim)}, times(100, op4{wire.OpRead, &wire.Read4Args{Count: mib}})...),
	})}, Strangers(10))
	s.Judge()
}
